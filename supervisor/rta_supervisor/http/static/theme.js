// The button for the theme: that of the system, light or dark. The browser keeps the choice.

import { byId, setText } from './dom.js';

const THEMES = ['auto', 'light', 'dark'];

// `onChange` is called when colours have changed, by the button or by the system.
export function setUpTheme(onChange) {
  let theme = stored();
  const use = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    setText(byId('theme'), `Theme: ${theme}`);
    onChange();
  };
  byId('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem('theme', theme);
    } catch { /* the theme is not kept */ }
    use();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onChange);
  use();
}

function stored() {
  try {
    const theme = localStorage.getItem('theme');
    return THEMES.includes(theme) ? theme : 'auto';
  } catch {
    return 'auto';
  }
}
