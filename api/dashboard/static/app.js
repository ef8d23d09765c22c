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
const release = () => {
  for (const form of document.querySelectorAll('form[data-sent]')) {
    delete form.dataset.sent;
  }
};
window.addEventListener('pageshow', release);
document.addEventListener('htmx:afterRequest', release);
