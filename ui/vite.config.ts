// Builds the page into a few files without inline scripts and styles, which its Content-Security-Policy forbids.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: process.env.ROSEMARY_UI_OUT ?? 'dist',
    emptyOutDir: true,
    target: 'es2022',
    // Files that are named by their content may be cached for ever.
    assetsDir: 'assets',
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  // For work on the page: `npm run dev` beside a running Rosemary.
  server: { proxy: { '/api': process.env.ROSEMARY_API ?? 'http://127.0.0.1:8181' } },
});
