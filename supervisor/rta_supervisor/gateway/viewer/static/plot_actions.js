// What people do with the plots, by mouse, touch, keyboard or button: they read, move, zoom, pause.

const PAGE_SHARE = 0.8;

export class PlotActions {
  // `view` has model, range, picture, controls, gutter(), plotWidth(), changed().
  constructor(view) {
    this.view = view;
  }

  // What the picture shows now: [start, end].
  shown() {
    return this.view.range.at(performance.now(), this.view.model.isMoving);
  }

  place(x) {
    return (x - this.view.gutter()) / this.view.plotWidth();
  }

  timeAt(x) {
    const [start, end] = this.shown();
    return start + this.place(x) * (end - start);
  }

  // The cursor follows a mouse, and stays at the time that a finger touched.
  pointAt(x) {
    const { model, picture } = this.view;
    picture.pointAt(x == null || !model || x < this.view.gutter() ? null : x);
  }

  markAt(x) {
    const { model, picture } = this.view;
    if (model && x >= this.view.gutter()) picture.setCursor(this.timeAt(x));
  }

  clearCursor() {
    this.view.picture.setCursor(null);
  }

  moveCursor(pixels) {
    const [start, end] = this.shown();
    const step = ((end - start) / this.view.plotWidth()) * pixels;
    this.view.picture.setCursor(Math.min(end, Math.max(start, (this.view.picture.cursor ?? end) + step)));
  }

  pan(pixels) {
    const [start, end] = this.shown();
    this.view.range.pan((pixels / this.view.plotWidth()) * (end - start), performance.now(), this.view.model.isMoving);
    this.view.changed();
  }

  // Zooms around a place of the picture; without one around the cursor, else its middle.
  zoom(factor, x) {
    const { range, model } = this.view;
    const place = x == null ? this.cursorPlace() : this.place(x);
    range.zoom(factor, Math.min(1, Math.max(0, place)), performance.now(), model.isMoving);
    this.view.changed();
  }

  cursorPlace() {
    const { cursor } = this.view.picture;
    const [start, end] = this.shown();
    return cursor == null ? 0.5 : (cursor - start) / (end - start);
  }

  // Marks a range that is being chosen; null for none.
  mark(range) {
    this.view.picture.select(range);
  }

  select(left, right) {
    const [start, end] = [this.timeAt(left), this.timeAt(right)];
    this.mark(null);
    this.view.range.fix(start, end);
    this.view.changed();
  }

  page(direction) {
    this.pan(direction * this.view.plotWidth() * PAGE_SHARE);
  }

  whole() {
    this.view.range.whole();
    this.view.changed();
  }

  end() {
    this.view.range.follow();
    this.view.changed();
  }

  // Pauses what moves, and lets it go on: a live picture, or a replay.
  toggle() {
    const { range, model, controls } = this.view;
    if (!model.isLive) controls.toggleReplay();
    else if (range.mode === 'fixed') range.follow();
    else range.pause(performance.now(), model.isMoving);
    this.view.changed();
  }
}
