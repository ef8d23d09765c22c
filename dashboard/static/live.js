'use strict';
// Parts of a page that follow what happens. An element with an id and data-live, a path of ours, is fetched every
// data-every seconds while the page is visible, and replaced when it has changed. Parts with the same path are fetched
// and replaced together, so that they agree. Without this script most of these pages reload by themselves. A page with a
// form has a link instead: a reload would empty the form.

// pressed is the element that a pointer or the space bar is held down on, until the click that follows the release.
// :active would stay after a link was dragged.
let pressed = null;
const recordPress = (event) => {
  if (event.type !== 'keydown' || event.key === ' ') {
    pressed = event.target;
  }
};
const endPress = () => window.setTimeout(() => {
  pressed = null;
});
['pointerdown', 'keydown'].forEach((type) => document.addEventListener(type, recordPress, true));
['pointerup', 'pointercancel', 'dragend', 'keyup'].forEach((type) => document.addEventListener(type, endPress, true));
window.addEventListener('blur', endPress);

// nameOf is what an element is known by after its part was replaced: its id, its address, the id of what it opens, or its
// text.
const nameOf = (element) => {
  const opens = element.matches('summary') && element.parentElement.id;
  return element.id || (element.href?.baseVal ?? element.href) || opens || element.textContent;
};

// replacement returns what replaces a part and keeps the focus, on the element with the same name. It returns nothing if
// the old part must stay: until a question is answered, until the focus has left it, while a text in it is selected, or
// while something is pressed in it, since a click on what is replaced before the release is lost.
const replacement = (old, now) => {
  const used = document.activeElement;
  const selection = document.getSelection();
  const selects = !selection.isCollapsed && old.contains(selection.anchorNode);
  if (old.querySelector(':popover-open') || old.contains(pressed) || selects) {
    return null;
  }
  if (!old.contains(used)) {
    return () => old.replaceWith(now);
  }
  const same = [...now.querySelectorAll('a, button, summary')].find((e) => nameOf(e) === nameOf(used));
  return same && (() => {
    old.replaceWith(now);
    same.focus({ preventScroll: true });
  });
};

// refresh throws if the answer lacks one of the parts, such as the page of an error.
const refresh = async (ids, path) => {
  const response = await fetch(path, { headers: { 'Relay-Part': ids.join(' ') } });
  if (response.headers.has('Relay-Redirect')) { // signed out
    window.location.reload();
    return;
  }
  const answer = new DOMParser().parseFromString(await response.text(), 'text/html');
  const steps = [];
  for (const id of ids) {
    const now = answer.getElementById(id);
    const old = document.getElementById(id);
    if (!now) {
      throw new Error(`no ${id} in the answer`);
    }
    for (const details of now.querySelectorAll('details[id]')) { // those that a person has opened or closed stay so
      details.open = document.getElementById(details.id)?.open ?? details.open;
    }
    showLocalTimes(now);
    const shown = old?.cloneNode(true);
    shown?.querySelectorAll('.copy').forEach((button) => button.remove());
    if (old && !now.isEqualNode(shown)) {
      addCopyButtons(document.adoptNode(now));
      steps.push(replacement(old, now));
    }
  }
  if (steps.every(Boolean)) {
    steps.forEach((step) => step());
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

// A form with data-preview, the id of a part, shows at once what it would do: on each change its answer replaces the part.
let asked = 0;
const preview = async ({ type, target: { form } }) => {
  const id = form?.dataset.preview;
  if (!id) {
    return;
  }
  const turn = ++asked;
  if (type === 'input') { // until the next key
    await new Promise((resolve) => { window.setTimeout(resolve, 250); });
    if (turn !== asked) {
      return;
    }
  }
  const body = new URLSearchParams(new FormData(form));
  const response = await fetch(form.action, { method: 'POST', body, headers: { 'Relay-Part': id } });
  const now = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById(id);
  if (now && turn === asked) {
    addCopyButtons(document.adoptNode(now));
    document.getElementById(id).replaceWith(now);
  }
};
document.addEventListener('change', preview);
document.addEventListener('input', preview);

const groups = Object.groupBy(document.querySelectorAll('[data-live][id]'), (element) => element.dataset.live);
for (const [path, elements] of Object.entries(groups)) {
  const ids = elements.map((element) => element.id);
  let busy = false;
  let since = null;
  window.setInterval(async () => {
    if (busy || document.hidden) {
      return;
    }
    busy = true;
    try {
      await refresh(ids, path);
      since = null;
    } catch {
      since ??= new Date();
    } finally {
      busy = false;
    }
    setLost(ids[0], since);
  }, Number(elements[0].dataset.every) * 1000);
}
