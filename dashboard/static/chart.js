'use strict';
// Charts: the values of the step under the pointer at once, arrow keys from step to step, and a drag that opens the events
// of several steps. Without this script a step has its values as a title, and opens its events.

const tip = Object.assign(document.createElement('div'), { className: 'tip', hidden: true });
document.body.append(tip);
let marked = []; // steps that are highlighted; the last one has lent its title to the tip
let dragged = null; // the step on which a drag began
let drawn = false; // the drag has left it

const stepsOf = (chart) => [...chart.querySelectorAll('.bars a')];
const titleOf = (step) => step.querySelector('title');

// mark highlights steps of a chart and shows the text. The browser would cover it with the title of the step, which is its
// label meanwhile.
function mark(steps, text = '') {
  for (const step of marked) {
    step.querySelector('.hit').classList.remove('at');
    if (step.ariaLabel) {
      titleOf(step).textContent = step.ariaLabel;
      step.ariaLabel = null;
    }
  }
  marked = steps;
  tip.hidden = steps.length === 0;
  if (tip.hidden) {
    return;
  }
  steps.forEach((step) => step.querySelector('.hit').classList.add('at'));
  tip.textContent = text;
  const plot = steps[0].ownerSVGElement.getBoundingClientRect();
  const [first, last] = [steps[0], steps.at(-1)].map((step) => step.getBoundingClientRect());
  const middle = (first.left + last.right) / 2 - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(4, Math.min(middle, window.innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, plot.top - tip.offsetHeight - 4)}px`;
}

// show marks one step, or those between it and the one on which a drag began.
function show(step) {
  const steps = stepsOf(step.closest('.chart'));
  const [from, to] = [steps.indexOf(dragged ?? step), steps.indexOf(step)].sort((a, b) => a - b);
  drawn ||= dragged !== null && from !== to;
  mark([]);
  if (!drawn) {
    const text = titleOf(step).textContent;
    mark([step], text);
    step.ariaLabel = text;
    titleOf(step).textContent = '';
    return;
  }
  const name = (i) => titleOf(steps[i]).textContent.replace(/: .*/, '');
  mark(steps.slice(Math.max(from, 0), to + 1), `${name(Math.max(from, 0))} to the end of ${name(to)}: open these events`);
}

// stepAt is the step of a chart above or below which a pointer is.
function stepAt({ target, clientX }) {
  const svg = target.closest?.('.chart > svg');
  if (!svg) {
    return undefined;
  }
  const box = svg.getBoundingClientRect();
  const steps = stepsOf(svg.parentElement);
  return steps[Math.max(0, Math.min(Math.floor((clientX - box.left) / box.width * steps.length), steps.length - 1))];
}

document.addEventListener('pointermove', (event) => {
  const step = stepAt(event);
  if (step && (!dragged || dragged.closest('.chart') === step.closest('.chart'))) {
    if (step !== marked.at(-1) || dragged) {
      show(step);
    }
  } else if (!dragged && !marked.includes(document.activeElement)) {
    mark([]);
  }
});

document.addEventListener('pointerdown', (event) => {
  const step = stepAt(event);
  drawn = false;
  dragged = event.button === 0 && step?.href.baseVal ? step : null;
});

document.addEventListener('pointerup', () => {
  if (drawn && marked.length > 1) {
    const to = new URL(marked[0].href.baseVal, window.location.href);
    to.searchParams.set('until', new URL(marked.at(-1).href.baseVal, window.location.href).searchParams.get('until'));
    window.location.assign(to);
  }
  dragged = null;
});
document.addEventListener('pointercancel', () => {
  dragged = null;
  mark([]);
});
document.addEventListener('dragstart', (event) => event.target.closest?.('.bars') && event.preventDefault());
document.addEventListener('click', (event) => drawn && event.target.closest?.('.bars') && event.preventDefault(), true);
document.addEventListener('focusin', ({ target }) => (target.matches('.bars a') ? show(target) : mark([])));
document.addEventListener('focusout', () => mark([]));
document.addEventListener('keydown', (event) => {
  if (!event.target.matches?.('.bars a')) {
    return;
  }
  const steps = stepsOf(event.target.closest('.chart'));
  const at = steps.indexOf(event.target);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
  if (steps[to]) {
    event.preventDefault();
    event.target.tabIndex = -1;
    steps[to].tabIndex = 0;
    steps[to].focus();
  }
});
