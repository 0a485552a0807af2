// Starts the page.
import { mount } from 'svelte';

import './app.css';
import App from './App.svelte';
import { applyTheme } from './lib/theme.svelte';

applyTheme();
const target = document.getElementById('page');
if (!target) throw new Error('index.html has no element "page"');
mount(App, { target });
