// The colours: those of the system, or the operator's choice, which the browser remembers.

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'rosemary-theme';
const saved = localStorage.getItem(KEY);

export const theme = $state<{ value: Theme }>({ value: saved === 'light' || saved === 'dark' ? saved : 'system' });

export function applyTheme(): void {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

export function nextTheme(): void {
  theme.value = theme.value === 'system' ? 'dark' : theme.value === 'dark' ? 'light' : 'system';
  localStorage.setItem(KEY, theme.value);
  applyTheme();
}
