'use strict';
// Parts of a page that follow what happens. An element with an id and data-live, a path of ours, is fetched every
// data-every seconds while the page is visible, and replaced when it has changed. Without this script the page reloads.

// replace keeps the focus, on the element with the same id or address. If there is none, the old part stays until the
// focus has left it.
const replace = (old, now) => {
  const used = document.activeElement;
  if (old.querySelector(':popover-open')) { // a question waits for its answer
    return;
  }
  if (!old.contains(used)) {
    old.replaceWith(now);
    return;
  }
  const same = [...now.querySelectorAll('a, button')].find((e) => (used.id ? e.id === used.id : e.href === used.href));
  if (same) {
    old.replaceWith(now);
    same.focus({ preventScroll: true });
  }
};

// refresh throws if the answer is not the part, such as the page of an error.
const refresh = async (id, path) => {
  const response = await fetch(path, { headers: { 'HX-Request': 'true', 'HX-Target': id } });
  if (response.headers.get('HX-Redirect')) { // signed out
    window.location.reload();
    return;
  }
  const now = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById(id);
  const old = document.getElementById(id);
  if (!now) {
    throw new Error(`no ${id} in the answer`);
  }
  if (old && !now.isEqualNode(old)) {
    replace(old, document.adoptNode(now));
  }
};

// setLost says above a part since when it could not be fetched; since = null: it can.
const setLost = (id, since) => {
  const shown = document.getElementById(`${id}-lost`);
  if (!since) {
    shown?.remove();
  } else if (!shown) {
    const text = document.createElement('p');
    text.id = `${id}-lost`;
    text.className = 'err';
    text.setAttribute('role', 'alert');
    text.textContent = `No answer since ${since.toISOString().slice(11, 19)} UTC: this may be old. Trying again.`;
    document.getElementById(id)?.before(text);
  }
};

for (const element of document.querySelectorAll('[data-live][id]')) {
  const { id, dataset: { live, every } } = element;
  let busy = false;
  let since = null;
  window.setInterval(async () => {
    if (busy || document.hidden) {
      return;
    }
    busy = true;
    try {
      await refresh(id, live);
      since = null;
    } catch {
      since ??= new Date();
    } finally {
      busy = false;
    }
    setLost(id, since);
  }, Number(every) * 1000);
}
