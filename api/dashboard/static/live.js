'use strict';
// Parts of a page that follow what happens. An element with an id and data-live, a path of ours, is fetched every
// data-every seconds while the page is visible, and replaced when it has changed. Without this script the page reloads.

const refresh = async (id, path) => {
  const response = await fetch(path, { headers: { 'HX-Request': 'true', 'HX-Target': id } });
  if (response.headers.get('HX-Redirect')) { // signed out
    window.location.reload();
    return;
  }
  const text = await response.text();
  const now = new DOMParser().parseFromString(text, 'text/html').getElementById(id);
  const old = document.getElementById(id);
  // An element in use is left alone: replacing it would move the focus.
  if (now && old && !now.isEqualNode(old) && !old.contains(document.activeElement)) {
    old.replaceWith(document.adoptNode(now));
  }
};

for (const element of document.querySelectorAll('[data-live][id]')) {
  const { id, dataset: { live, every } } = element;
  let busy = false;
  window.setInterval(async () => {
    if (busy || document.hidden) {
      return;
    }
    busy = true;
    try {
      await refresh(id, live);
    } catch {
      // The next round tries again.
    } finally {
      busy = false;
    }
  }, Number(every) * 1000);
}
