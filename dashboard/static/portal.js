'use strict';
// The script of the portal. Its pages work without it.

// A link that a person has followed, or that an application shows in a frame, opens by itself. The server says so: a
// program that previews links runs scripts at times, too.
document.querySelector('form[data-open]')?.requestSubmit();

// In a frame, the page around it learns the height of this one: {type: 'eventrelay:height', height}, in CSS pixels. Only
// the listed origins are told.
const origins = (document.body.dataset.origins ?? '').split(' ').filter(Boolean);
if (window.parent !== window && origins.length > 0) {
  const around = location.ancestorOrigins?.[0];
  const listeners = around ? origins.filter((origin) => origin === around) : origins;
  const tell = () => {
    const height = document.documentElement.scrollHeight;
    for (const origin of listeners) {
      window.parent.postMessage({ type: 'eventrelay:height', height }, origin);
    }
  };
  new ResizeObserver(tell).observe(document.body);
}
