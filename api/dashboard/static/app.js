'use strict';
// The first script of every page. All pages work without it.

// The page's policy (require-trusted-types-for) lets no other script turn text into HTML. htmx inserts the parts that our
// own server sends; the policy of the page forbids scripts in them.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy('default', { createHTML: (html) => html });
}

// A form is sent once. The server would do nothing twice either: this spares the person a second answer.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method !== 'post') {
    return;
  }
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = 'yes';
}, true);

// A page that comes back from the history, or an answer that leaves the form, can send it again.
function release() {
  for (const form of document.querySelectorAll('form[data-sent]')) {
    delete form.dataset.sent;
  }
}
window.addEventListener('pageshow', release);
document.addEventListener('htmx:afterRequest', release);

// A page that is left does not keep the secret that it has shown once: browsers can bring it back from memory.
window.addEventListener('pagehide', () => {
  for (const value of document.querySelectorAll('[data-once]')) {
    value.textContent = 'It was shown once.';
  }
});

// The server writes times relative to its answer. They go on while the page is open; relative in view.go has the same
// units. The clock of the browser may be wrong, so the time since the page was loaded is added to the server's.
const units = [[48 * 3600, 24 * 3600, 'days'], [3600, 3600, 'h'], [60, 60, 'min'], [1, 1, 's']];

function relative(seconds) {
  for (const [from, unit, name] of units) {
    if (Math.abs(seconds) >= from) {
      const text = `${Math.floor(Math.abs(seconds) / unit)}\u00a0${name}`;
      return seconds < 0 ? `in ${text}` : `${text} ago`;
    }
  }
  return 'now';
}

function advance() {
  const now = Date.parse(document.documentElement.dataset.now) + performance.now();
  for (const element of document.querySelectorAll('time[data-relative]')) {
    element.textContent = relative((now - Date.parse(element.dateTime)) / 1000);
  }
}
setInterval(advance, 10_000);

// A value to take away gets a button that copies it. Browsers allow that on https and on this machine only.
if (navigator.clipboard) {
  for (const value of document.querySelectorAll('[data-copy]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'b';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(value.textContent);
      button.textContent = 'Copied';
    });
    const row = document.createElement('div');
    row.className = 'row';
    row.append(button);
    value.after(row);
  }
}
