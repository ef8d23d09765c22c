// A button that copies each block of code. Pages in a sandbox have no navigator.clipboard.
for (const pre of document.querySelectorAll('figure.code > pre')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.addEventListener('click', () => {
    getSelection().selectAllChildren(pre);
    const done = document.execCommand('copy');
    button.textContent = done ? 'Copied' : 'Press Ctrl C';
    if (done) getSelection().empty();
  });
  pre.previousElementSibling.append(button);
}
// Addresses of version 0.2: the whole API was at /docs. Its anchors are links on /docs/api.
const anchor = decodeURIComponent(location.hash.slice(1));
const target = document.getElementById(anchor);
if (anchor && !target && document.querySelector('.side > ul > :first-child > [aria-current]')) {
  location.replace('/docs/api#' + anchor);
} else if (target?.matches('.ops > li, .plain > li')) {
  location.replace(target.querySelector('a').href);
}
