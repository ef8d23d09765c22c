'use strict';
// The script of the portal. Its pages work without it.

// A link that a listed application leads to, or shows in a frame, opens by itself. The server says so: a program that
// previews links runs scripts at times, too.
document.querySelector('form[data-open]')?.requestSubmit();

// In a frame, the page around it learns the height of this one, {type: 'eventrelay:height', height} in CSS pixels, and that
// a person has gone on to another page, {type: 'eventrelay:page'}. Only the listed origins are told.
const origins = (document.body.dataset.origins ?? '').split(' ').filter(Boolean);
if (window.parent !== window && origins.length > 0) {
  const around = location.ancestorOrigins?.[0];
  const listeners = around ? origins.filter((origin) => origin === around) : origins;
  const tell = (message) => listeners.forEach((origin) => window.parent.postMessage(message, origin));
  new ResizeObserver(() => tell({ type: 'eventrelay:height', height: document.body.offsetHeight })).observe(document.body);
  if (document.referrer.startsWith(location.origin)) {
    tell({ type: 'eventrelay:page' });
  }
  document.querySelector('.top form').hidden = true; // the application around is where one would go back to

  // The frame is as high as the page: the middle of it may be far from what a person sees.
  let clicked = 0;
  document.addEventListener('click', ({ clientY }) => { clicked = clientY; }, true);
  document.addEventListener('toggle', ({ target, newState }) => {
    if (newState === 'open' && target.matches('.dlg')) {
      const most = document.body.offsetHeight - target.offsetHeight;
      Object.assign(target.style, { top: `${Math.max(8, Math.min(clicked - 80, most))}px`, bottom: 'auto' });
    }
  }, true);
}
