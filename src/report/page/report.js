'use strict';
(() => {
  const $ = (id) => document.getElementById(id);

  // ---- Tables -------------------------------------------------------------------------------

  function sortTable(table, column, ascending) {
    const value = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.value === undefined) return cell.textContent;
      return cell.dataset.value === '' ? null : Number(cell.dataset.value);
    };
    const order = (left, right) => {
      const a = value(left), b = value(right);
      // What has no figure stays at the end in either direction.
      if (a === null || b === null) return (a === null) - (b === null);
      const difference = typeof a === 'string' ? a.localeCompare(b) : a - b;
      return ascending ? difference : -difference;
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(order));
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      header.querySelector('button').addEventListener('click', () => {
        const ascending = header.getAttribute('aria-sort') !== 'ascending';
        headers.forEach((other) => other.removeAttribute('aria-sort'));
        header.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
        sortTable(table, column, ascending);
      });
    });
  }

  // ---- Heat maps: one tab stop, arrows move, hovering and tapping read out --------------------

  function readOut(cell) {
    const line = cell.closest('.solver').querySelector('.readout');
    line.textContent = `${cell.dataset.name} = ${cell.dataset.value}`;
  }

  function moveFocus(event) {
    const cell = event.target.closest('td[data-value]');
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const step = steps[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const row = cell.closest('tbody').rows[cell.parentElement.sectionRowIndex + step[0]];
    const next = row && row.cells[cell.cellIndex + step[1]];
    if (!next || next.dataset.value === undefined) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  for (const table of document.querySelectorAll('table.heat')) {
    for (const kind of ['pointerover', 'click', 'focusin']) {
      table.addEventListener(kind, (event) => {
        const cell = event.target.closest('td[data-value]');
        if (cell) readOut(cell);
      });
    }
    table.addEventListener('keydown', moveFocus);
  }

  // ---- Choosers: one of several contents at a time ---------------------------------------------

  for (const choices of document.querySelectorAll('.choices')) {
    const select = choices.querySelector('select');
    const contents = choices.querySelectorAll(':scope > .choice');
    select.addEventListener('change', () => {
      contents.forEach((content, i) => { content.hidden = i !== select.selectedIndex; });
    });
  }

  // ---- Charts: names hide and show their lines ---------------------------------------------------

  for (const button of document.querySelectorAll('.legend button')) {
    button.addEventListener('click', () => {
      const hides = button.getAttribute('aria-pressed') === 'true';
      button.setAttribute('aria-pressed', !hides);
      for (const line of button.closest('figure').querySelectorAll('svg g')) {
        if (line.dataset.name === button.textContent) line.classList.toggle('off', hides);
      }
    });
  }

  // ---- Commands -------------------------------------------------------------------------------

  async function copy(button) {
    const code = button.parentElement.querySelector('code');
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      // Not every browser lets a page from a file at the clipboard.
      getSelection().selectAllChildren(code);
      button.textContent = 'Selected';
    }
    $('copied').textContent = button.textContent;
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  }

  for (const button of document.querySelectorAll('.copy')) {
    button.addEventListener('click', () => copy(button));
  }

  // ---- What is wider than the screen ------------------------------------------------------------

  for (const scroll of document.querySelectorAll('.scroll')) {
    const cue = document.createElement('p');
    cue.className = 'cue';
    cue.setAttribute('aria-hidden', 'true');
    scroll.after(cue);
    const update = () => {
      const left = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
      cue.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
      cue.textContent = left > 1 ? 'more to the right →' : '← more to the left';
    };
    scroll.addEventListener('scroll', update, {passive: true});
    new ResizeObserver(update).observe(scroll);
    update();
  }

  // ---- Samples by their number of evaluations -----------------------------------------------------

  const slider = $('cost');
  if (slider) {
    const costs = slider.dataset.costs.split(',');
    const show = () => {
      const cost = costs[slider.value];
      slider.nextElementSibling.value = cost;
      slider.setAttribute('aria-valuetext', `${cost} ${slider.dataset.unit}${cost === '1' ? '' : 's'}`);
      for (const strip of document.querySelectorAll('.strip[data-cost]')) {
        strip.hidden = strip.dataset.cost !== '0' && strip.dataset.cost !== cost;
      }
    };
    slider.addEventListener('input', show);
    $('cost-chooser').hidden = false;
    show();
  }

  // ---- One image, large: as it is, beside the reference's and as the difference from it -----------

  const viewer = $('viewer');
  if (viewer) {
    const picture = $('viewer-image');
    const gallery = document.querySelector('.gallery');
    let shown = null;  // the button of the image
    let timer = 0;

    const imageOf = (button, kind) => button.querySelector(`img.${kind}`);
    const referenceOf = (button) => {
      const place = [...button.parentElement.children].indexOf(button);
      return gallery.querySelector('.strip.reference .images').children[place];
    };
    const put = (image) => {
      picture.src = image.src;
      picture.alt = image.alt;
      $('viewer-title').textContent = image.alt;
    };

    function view(kind) {
      clearInterval(timer);
      const own = imageOf(shown, 'sample'), reference = imageOf(referenceOf(shown), 'sample');
      if (kind === 'sample') put(own);
      if (kind === 'reference') put(reference);
      if (kind === 'difference') put(imageOf(shown, 'error'));
      if (kind !== 'flicker') return;
      let first = true;
      const turn = () => {
        put(first ? own : reference);
        first = !first;
      };
      turn();
      timer = setInterval(turn, 600);
    }

    function open(button) {
      shown = button;
      const isReference = !imageOf(button, 'error');
      viewer.querySelector('fieldset').hidden = isReference;
      const kind = !isReference && $('show-errors').checked ? 'difference' : 'sample';
      $(`view-${kind}`).checked = true;
      view(kind);
      viewer.showModal();
    }

    gallery.addEventListener('click', (event) => {
      const button = event.target.closest('.zoom');
      if (button) open(button);
    });
    gallery.addEventListener('keydown', (event) => {
      const button = event.target.closest('.zoom');
      const next = button && {ArrowLeft: button.previousElementSibling,
                              ArrowRight: button.nextElementSibling}[event.key];
      if (!next) return;
      event.preventDefault();
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    viewer.addEventListener('change', (event) => view(event.target.value));
    $('viewer-close').addEventListener('click', () => viewer.close());
    viewer.addEventListener('click', (event) => { if (event.target === viewer) viewer.close(); });
    viewer.addEventListener('close', () => {
      clearInterval(timer);
      shown.focus();
    });
  }

  // Paper is light whatever the screen is.
  addEventListener('beforeprint', () => { document.documentElement.dataset.print = ''; });
  addEventListener('afterprint', () => { delete document.documentElement.dataset.print; });
})();
