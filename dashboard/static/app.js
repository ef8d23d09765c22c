'use strict';
// The first script of every page. All pages work without it.

// The page's policy (require-trusted-types-for) lets no other script turn text into HTML. live.js reads the parts that our
// own server sends; the policy of the page forbids scripts in them.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy('default', { createHTML: (html) => html });
}

// The portal has texts of this script in other languages.
const words = JSON.parse(document.documentElement.dataset.words ?? '{}');
const word = (english) => words[english] ?? english;

let empty = []; // fields that are not sent

// A form is sent once. The server would do nothing twice either: this spares the person a second answer.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method !== 'post') { // the address of a list has the filters that are set
    empty = [...form.elements].filter((field) => field.name && !field.value && !field.disabled);
    empty.forEach((field) => {
      field.disabled = true;
    });
    return;
  }
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = 'yes';
}, true);

// A page that comes back from the history can send its form again.
window.addEventListener('pageshow', () => {
  empty.forEach((field) => {
    field.disabled = false;
  });
  for (const form of document.querySelectorAll('form[data-sent]')) {
    delete form.dataset.sent;
  }
});

// The button of a form with a choice says what is chosen: Replay to warehouse.
function nameChoice(choice) {
  const button = choice.dataset.go && choice.form.querySelector('.go');
  if (button) {
    button.textContent = choice.dataset.go;
  }
}
document.querySelectorAll('[data-go]:checked').forEach(nameChoice);
document.addEventListener('change', (event) => nameChoice(event.target));

// The button of a form with several choices says how many are chosen: one|several, with # for the number|none.
document.addEventListener('change', ({ target }) => {
  if (target.dataset.count) {
    const chosen = target.form.querySelectorAll('[data-count]:checked');
    const [one, several, none] = (chosen[0] ?? target).dataset.count.split('|');
    const button = target.form.querySelector('.go');
    button.textContent = [none, one][chosen.length] ?? several.replace('#', chosen.length);
    button.disabled = chosen.length === 0;
  }
});

// A page that is left does not keep the secret that it has shown once: browsers can bring it back from memory.
window.addEventListener('pagehide', () => {
  for (const value of document.querySelectorAll('[data-once]')) {
    value.textContent = word('It was shown once.');
    value.value = ''; // of a form that has offered it
  }
});

// The server writes times relative to its answer. They go on while the page is open; relative in view.go has the same
// units. The clock of the browser may be wrong, so the time since the page was loaded is added to the server's.
const units = [[48 * 3600, 24 * 3600, '%s\u00a0days'], [3600, 3600, '%s\u00a0h'], [60, 60, '%s\u00a0min'], [1, 1, '%s\u00a0s']];

function relative(seconds) {
  let distance = Math.abs(seconds);
  if (seconds < 0 && distance >= 60) { // the nearest
    distance += units.find(([from]) => distance >= from)[1] / 2;
  }
  for (const [from, unit, name] of units) {
    if (distance >= from) {
      const text = word(name).replace('%s', Math.floor(distance / unit));
      return word(seconds < 0 ? 'in %s' : '%s ago').replace('%s', text);
    }
  }
  return word('now');
}

function advance() {
  const now = Date.parse(document.documentElement.dataset.now) + performance.now();
  for (const element of document.querySelectorAll('time[data-relative]')) {
    const seconds = (now - Date.parse(element.dateTime)) / 1000;
    element.textContent = element.dataset.relative === 'due' && seconds >= 0 ? word('due now') : relative(seconds);
  }
}
setInterval(advance, 10_000);

// Code, and a value to take away, get a button that copies them. Browsers allow that on https and on this machine only.
// live.js calls this for the parts that it replaces.
function addCopyButtons(part) {
  for (const value of navigator.clipboard ? part.querySelectorAll('figure.code > pre, .pick:not(pre .pick)') : []) {
    const caption = value.closest('figure')?.querySelector('figcaption');
    if ((caption?.lastElementChild ?? value.nextElementSibling)?.matches('.copy')) {
      continue;
    }
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = word('Copy');
    button.setAttribute('aria-label', `${word('Copy')} ${(caption ?? value).innerText.trim().slice(0, 30)}`);
    button.addEventListener('click', async () => {
      value.querySelectorAll('details').forEach((fold) => {
        fold.open = true; // what is folded has no text to copy
      });
      await navigator.clipboard.writeText(value.innerText);
      button.textContent = word('Copied');
    });
    caption ? caption.append(button) : value.after(button);
  }
}
addCopyButtons(document);

// Keys for lists. They do nothing while somebody types or a question is open, and can be turned off in this browser:
// speech input types letters (WCAG 2.1.4).
const keys = [['j', 'next row'], ['k', 'previous row'], ['Enter', 'open the row'], ['/', 'search the list'], ['Ctrl K', 'search everything'], ['r', 'replay the event'], ['n', 'next event of the list'], ['p', 'previous event of the list'], ['?', 'this list']];
const keysOff = 'relay-keys-off';

// step focuses the first link of the next row that has one, or of the row before.
function step(by) {
  const links = [...document.querySelectorAll('main table.t tbody tr')].map((row) => row.querySelector('a[href]'))
    .filter((link) => link?.checkVisibility());
  const at = links.findIndex((link) => link.closest('tr').contains(document.activeElement));
  const to = at < 0 && by < 0 ? links.length - 1 : at + by;
  links[Math.min(Math.max(to, 0), links.length - 1)]?.focus();
}

// The list of events that was shown last in this tab, for the way from one event to the next.
const listed = 'relay-events';
window.addEventListener('pagehide', () => {
  const paths = [...document.querySelectorAll('#rows tbody a[id^=evt_]')].map((link) => link.pathname);
  if (paths.length) {
    sessionStorage.setItem(listed, JSON.stringify(paths));
  }
});

// neighbour is the path of the event that many rows further down the list; undefined: there is none.
function neighbour(by) {
  const paths = JSON.parse(sessionStorage.getItem(listed) ?? '[]');
  const at = paths.indexOf(window.location.pathname);
  return at < 0 ? undefined : paths[at + by];
}

// The page of an event links to its neighbours beside the way back to the list.
const crumb = document.querySelector('.crumb[data-event]');
for (const [text, by] of crumb ? [['Previous', -1], ['Next', 1]] : []) {
  if (neighbour(by)) {
    const link = document.createElement('a');
    link.href = neighbour(by);
    link.textContent = text;
    crumb.append(' · ', link);
  }
}

const visit = (path) => path && window.location.assign(path);

// placesOf returns where lines have a text, in capital or small letters.
function placesOf(text, lines) {
  const wanted = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi');
  return lines.flatMap((line) => {
    const nodes = [];
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    for (let from = 0; walker.nextNode(); from += walker.currentNode.length) {
      nodes.push({ node: walker.currentNode, from });
    }
    return [...line.textContent.matchAll(wanted)].map(({ index, 0: { length } }) => {
      const place = new Range();
      const first = nodes.findLast(({ from }) => from <= index);
      const last = nodes.findLast(({ from }) => from < index + length);
      place.setStart(first.node, index - first.from);
      place.setEnd(last.node, index + length - last.from);
      return place;
    });
  });
}

// A body gets a field that finds a text in it. Enter leads to the next place. The browser marks the places: the body
// itself does not change.
const body = window.CSS?.highlights && document.querySelector('figure[data-find]');
if (body) {
  const field = document.createElement('input');
  const count = document.createElement('span');
  let places = [];
  let at = 0;
  const show = () => {
    count.textContent = field.value && `${Math.min(at + 1, places.length)} of ${places.length}`;
    window.CSS.highlights.set('found', new Highlight(...places));
    window.CSS.highlights.set('here', new Highlight(...places.slice(at, at + 1)));
    const here = places[at]?.startContainer.parentElement;
    for (let fold = here?.closest('details'); fold; fold = fold.parentElement.closest('details')) {
      fold.open = true;
    }
    here?.scrollIntoView({ block: 'nearest' });
  };
  field.type = 'search';
  field.placeholder = 'Find';
  field.setAttribute('aria-label', 'Find in the body');
  field.addEventListener('input', () => {
    const lines = body.querySelectorAll('code i');
    places = field.value ? placesOf(field.value, lines.length ? [...lines] : [body.querySelector('code')]) : [];
    at = 0;
    show();
  });
  field.addEventListener('keydown', ({ key, shiftKey }) => {
    if (key === 'Enter' && places.length) {
      at = (at + (shiftKey ? places.length - 1 : 1)) % places.length;
      show();
    }
  });
  count.setAttribute('role', 'status');
  body.querySelector('.end').before(field, count);
}

// The field of the search offers pages, endpoints, destinations and commands while somebody types. Enter without a choice
// searches. What it offers comes from the memory of the relay, so it does not wait for the store.
const finder = document.querySelector('.top input[type=search]');
if (finder) {
  const list = document.createElement('ul');
  let asked = 0;
  let wait;
  const lines = () => [...list.children];
  const chosen = () => list.querySelector('[aria-selected=true]');
  const choose = (line) => {
    lines().forEach((other) => other.setAttribute('aria-selected', other === line));
    line ? finder.setAttribute('aria-activedescendant', line.id) : finder.removeAttribute('aria-activedescendant');
    line?.scrollIntoView({ block: 'nearest' });
  };
  const open = (found) => {
    list.replaceChildren(...found.map(({ name, path, kind }, i) => {
      const line = document.createElement('li');
      const link = document.createElement('a');
      const note = document.createElement('small');
      Object.assign(line, { id: `offer-${i}`, role: 'option' });
      Object.assign(link, { href: path, tabIndex: -1, textContent: name });
      note.textContent = kind;
      link.append(' ', note);
      line.append(link);
      return line;
    }));
    list.hidden = found.length === 0;
    finder.setAttribute('aria-expanded', !list.hidden);
    choose();
  };
  const close = () => {
    asked += 1; // an answer that is on its way comes too late
    open([]);
  };
  const ask = async () => {
    const mine = asked += 1;
    const answer = await fetch(`/app/palette?q=${encodeURIComponent(finder.value)}`).then((r) => (r.ok ? r.json() : [])).catch(() => []);
    if (mine === asked && document.activeElement === finder) {
      open(answer);
    }
  };
  Object.assign(list, { id: 'offers', role: 'listbox', ariaLabel: 'Offers', hidden: true });
  for (const [name, value] of Object.entries({ role: 'combobox', 'aria-controls': list.id, 'aria-expanded': false, 'aria-autocomplete': 'list', autocomplete: 'off' })) {
    finder.setAttribute(name, value);
  }
  finder.after(list);
  finder.addEventListener('input', () => {
    window.clearTimeout(wait);
    wait = window.setTimeout(ask, 80);
  });
  finder.form.addEventListener('focusout', ({ relatedTarget }) => finder.form.contains(relatedTarget) || close());
  finder.addEventListener('keydown', (event) => {
    const all = lines();
    const at = all.indexOf(chosen());
    if (event.key === 'ArrowDown' && list.hidden) {
      ask();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      choose(all[(at + (event.key === 'ArrowDown' ? 1 : all.length - 1 + (at < 0))) % all.length]);
    } else if (event.key === 'Enter' && chosen()) {
      chosen().firstChild.click();
    } else if (event.key === 'Escape' && !list.hidden) {
      close();
    } else {
      return;
    }
    event.preventDefault();
  });
}

// Rows that can be ticked: the bar of their actions appears with the first one, and the head ticks all.
const bar = document.querySelector('#ticked');
if (bar) {
  const boxes = [...bar.elements].filter((box) => box.name === 'row');
  const all = document.createElement('input');
  const count = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    bar.hidden = ticked === 0;
    bar.querySelector('output').textContent = `${ticked} selected:`;
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && !all.checked;
  };
  bar.classList.add('on'); // above the list, wherever its page is scrolled to
  Object.assign(all, { type: 'checkbox', ariaLabel: 'Select all rows of this page' });
  all.addEventListener('change', () => {
    boxes.forEach((box) => {
      box.checked = all.checked;
    });
    count();
  });
  document.querySelector('th.tick').replaceChildren(all);
  boxes.forEach((box) => box.addEventListener('change', count));
  window.addEventListener('pageshow', count); // also with what the browser has restored
}

function search() {
  const fields = document.querySelectorAll('main form.filter input:not([type=hidden]), .top input[type=search]');
  [...fields].find((field) => field.checkVisibility())?.select();
}

// help returns the dialog that lists the keys.
function help() {
  const shown = document.getElementById('keys');
  if (shown) {
    return shown;
  }
  const element = (name, text, ...inside) => {
    const made = document.createElement(name);
    made.append(text, ...inside);
    return made;
  };
  const list = element('dl', '');
  list.className = 'kv';
  for (const [key, meaning] of keys) {
    list.append(element('dt', '', element('code', key)), element('dd', meaning));
  }
  const box = document.createElement('input');
  box.type = 'checkbox';
  box.checked = !localStorage.getItem(keysOff);
  box.addEventListener('change', () => (box.checked ? localStorage.removeItem(keysOff) : localStorage.setItem(keysOff, 'yes')));
  const use = element('label', '', box, ' Use these keys in this browser');
  use.className = 'row';
  const close = element('button', 'Close');
  close.type = 'button';
  close.className = 'b';
  const title = element('h2', 'Keys');
  title.id = 'keys-h';
  const dialog = element('div', '', title, list, use, close);
  Object.assign(dialog, { id: 'keys', className: 'dlg', popover: 'auto', lang: 'en' });
  dialog.setAttribute('role', 'dialog');
  dialog.setAttribute('aria-labelledby', title.id);
  close.addEventListener('click', () => dialog.hidePopover());
  document.body.append(dialog);
  return dialog;
}

const actions = {
  j: () => step(1),
  k: () => step(-1),
  r: () => document.querySelector('[popovertarget=dlg-replay]')?.click(),
  n: () => visit(neighbour(1)),
  p: () => visit(neighbour(-1)),
  '/': search,
  '?': () => help().showPopover(),
};

document.addEventListener('keydown', (event) => {
  const { key, target, ctrlKey, altKey, metaKey, isComposing } = event;
  if ((ctrlKey || metaKey) && key === 'k') { // no letter, so that it works while somebody types
    event.preventDefault();
    finder?.select();
    return;
  }
  const typing = isComposing || target.matches?.('input, textarea, select, [contenteditable]');
  if (ctrlKey || altKey || metaKey || typing || !actions[key] || document.querySelector(':popover-open') ||
    localStorage.getItem(keysOff)) {
    return;
  }
  event.preventDefault();
  actions[key]();
});

// Times are UTC. Who chooses it in this browser sees those of the own time zone, and in the portal everybody does; the
// title of a time has UTC.
const localTimes = 'relay-local-times';
const zone = document.querySelector('[data-zone]'); // of the portal
const pageLanguage = document.documentElement.lang;
const locale = zone ? navigator.languages.find((tag) => tag.split('-')[0] === pageLanguage) ?? pageLanguage : 'en-GB';
const clock = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayAndClock = new Intl.DateTimeFormat(locale, {
  day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit',
});
const dayAndMinute = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

// showLocalSteps changes the times of a chart: in its table, in the titles of its bars, and below its axis.
function showLocalSteps(chart) {
  const format = Number(chart.dataset.step) < 60 ? clock : dayAndMinute;
  const cells = [...chart.querySelectorAll('tbody tr')].map((row) => row.querySelector('a') ?? row.cells[0]);
  const titles = chart.querySelectorAll('.bars a title');
  const marks = chart.querySelectorAll('.axis span');
  const labels = cells.map((cell, i) => {
    const was = cell.textContent;
    cell.textContent = format.format(Date.parse(chart.dataset.first) + i * Number(chart.dataset.step) * 1000);
    if (titles[i]?.textContent.startsWith(was)) {
      titles[i].textContent = cell.textContent + titles[i].textContent.slice(was.length);
    }
    return cell.textContent;
  });
  marks.forEach((mark, i) => {
    mark.textContent = labels[Math.floor(i * (labels.length - 1) / Math.max(marks.length - 1, 1))];
  });
}

// showLocalTimes changes the times of a part of the page, and the words that say UTC. live.js calls it for the parts that
// it replaces.
function showLocalTimes(part) {
  if (!zone && !localStorage.getItem(localTimes)) {
    return;
  }
  if (zone) {
    zone.textContent = zone.dataset.zone.replace('%s', Intl.DateTimeFormat().resolvedOptions().timeZone);
  }
  for (const element of part.querySelectorAll('time[datetime]:not([data-relative])')) {
    const at = new Date(element.dateTime);
    const today = at.toDateString() === new Date().toDateString();
    element.title ||= `${element.dateTime.replace('T', ' ').replace('Z', '')} UTC`;
    element.textContent = (today ? clock : dayAndClock).format(at);
  }
  part.querySelectorAll('[data-first]').forEach(showLocalSteps);
  for (const heading of part.querySelectorAll('th, footer.main small')) {
    for (const node of heading.childNodes) {
      node.textContent = node.nodeName === '#text' ?
        node.textContent.replace(/, UTC| \(UTC\)/, '').replace('all times are UTC', 'times are those of this browser') : node.textContent;
    }
  }
}
showLocalTimes(document);

// Who looks for keys and times finds them beside the own name.
const account = document.querySelector('#account .row');

function addToAccount(text, act) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'b q';
  button.textContent = text;
  button.addEventListener('click', () => {
    document.getElementById('account').hidePopover();
    act();
  });
  account.append(button);
}
if (account) {
  addToAccount('Keys for lists', () => help().showPopover());
  addToAccount(localStorage.getItem(localTimes) ? 'Times in UTC' : 'Times of my time zone', () => {
    if (localStorage.getItem(localTimes)) {
      localStorage.removeItem(localTimes);
    } else {
      localStorage.setItem(localTimes, 'yes');
    }
    window.location.reload();
  });
}
