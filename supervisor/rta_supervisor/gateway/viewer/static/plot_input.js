// Mouse, touch and keyboard on the plots: cursor, pan, zoom.

const WHEEL_ZOOM = 1.0015;
const KEY_ZOOM = 1.5;
const TAP_PX = 4;
const CURSOR_STEPS = { ArrowLeft: -1, ArrowRight: 1 };

export class PlotInput {
  // `plots`: what people do with the plots, in pixels from the left edge of the plots.
  constructor(element, plots) {
    this.element = element;
    this.plots = plots;
    this.pointers = new Map();
    element.addEventListener('pointerdown', (event) => this.down(event));
    element.addEventListener('pointermove', (event) => this.move(event));
    element.addEventListener('pointerup', (event) => this.up(event));
    element.addEventListener('pointercancel', (event) => this.up(event));
    element.addEventListener('pointerleave', ({ pointerType }) => pointerType === 'mouse' && !this.pointers.size && plots.pointAt(null));
    element.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    element.addEventListener('dblclick', ({ target }) => !target.closest('button') && plots.whole());
    element.addEventListener('keydown', (event) => this.key(event));
  }

  // Pixels from the left edge of the plots.
  x(event) {
    return event.clientX - (this.element.querySelector('canvas') ?? this.element).getBoundingClientRect().left;
  }

  down(event) {
    if (event.button !== 0 || event.target.closest('button')) return;
    this.element.setPointerCapture(event.pointerId);
    const x = this.x(event);
    this.pointers.set(event.pointerId, { x, first: x, isSelecting: event.shiftKey, isAlone: true });
    if (this.pointers.size > 1) for (const pointer of this.pointers.values()) pointer.isAlone = false;
  }

  move(event) {
    const pointer = this.pointers.get(event.pointerId);
    const x = this.x(event);
    if (!pointer) {
      this.plots.pointAt(x);
      return;
    }
    const distance = x - pointer.x;
    if (this.pointers.size === 2) this.pinch(event.pointerId, x);
    else if (pointer.isSelecting) this.plots.mark([pointer.first, x]);
    else if (Math.abs(x - pointer.first) > TAP_PX) this.plots.pan(-distance);
    pointer.x = x;
  }

  pinch(id, x) {
    const [, other] = [...this.pointers].find(([otherId]) => otherId !== id);
    const before = Math.abs(this.pointers.get(id).x - other.x);
    const after = Math.abs(x - other.x);
    if (before > 10 && after > 10) this.plots.zoom(before / after, (x + other.x) / 2);
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) return;
    this.pointers.delete(event.pointerId);
    const x = this.x(event);
    const isTap = pointer.isAlone && Math.abs(x - pointer.first) <= TAP_PX && event.type === 'pointerup';
    if (pointer.isSelecting && !isTap) this.plots.select(Math.min(x, pointer.first), Math.max(x, pointer.first));
    else if (isTap && event.pointerType === 'mouse') this.plots.pointAt(x);
    else if (isTap) this.plots.markAt(x);
  }

  wheel(event) {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.plots.pan(event.deltaX);
    else this.plots.zoom(WHEEL_ZOOM ** event.deltaY, this.x(event));
  }

  key(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const { plots } = this;
    if (event.key in CURSOR_STEPS) plots.moveCursor(CURSOR_STEPS[event.key] * (event.shiftKey ? 10 : 1));
    else if (event.key === '+' || event.key === '=') plots.zoom(1 / KEY_ZOOM, null);
    else if (event.key === '-') plots.zoom(KEY_ZOOM, null);
    else if (event.key === 'PageUp') plots.page(-1);
    else if (event.key === 'PageDown') plots.page(1);
    else if (event.key === 'Home') plots.whole();
    else if (event.key === 'End') plots.end();
    else if (event.key === ' ') plots.toggle();
    else if (event.key === 'Escape') plots.clearCursor();
    else return;
    event.preventDefault();
  }
}
