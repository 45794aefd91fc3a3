'use strict';
(() => {
  const data = JSON.parse(document.getElementById('report-data').textContent);
  const $ = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const counted = (count) => `${count} ${data.unit}${count === 1 ? '' : 's'}`;
  const label = (item) => `${item.solver}, ${counted(item.cost)}`;

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

  // ---- Choosers -------------------------------------------------------------------------------

  // Fills a <select> and shows it where there is something to choose.
  function chooser(id, items, chosen, onChange) {
    const select = $(id);
    items.forEach((item, i) => select.add(new Option(item, i, false, i === chosen)));
    select.closest('.chooser').hidden = items.length < 2;
    select.addEventListener('change', () => onChange(Number(select.value)));
    onChange(chosen);
  }

  const isFeatured = (item) => data.featured && item.solver === data.featured.solver &&
                               item.cost === data.featured.cost;
  const featuredIndex = (items) => Math.max(items.findIndex(isFeatured), 0);

  const solvers = [...document.querySelectorAll('.solver')];
  if (solvers.length > 1) {
    const items = solvers.map((s) => ({solver: s.dataset.solver, cost: Number(s.dataset.cost)}));
    solvers.forEach((solver) => solver.querySelector('h3').classList.add('visually-hidden'));
    chooser('solver-choice', items.map(label), featuredIndex(items), (chosen) => {
      solvers.forEach((solver, i) => { solver.hidden = i !== chosen; });
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
      slider.setAttribute('aria-valuetext', counted(Number(cost)));
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

  // ---- Charts ---------------------------------------------------------------------------------

  if (typeof Chart === 'undefined') return;

  const redraws = [];  // of each chart, in the colours of the moment
  const shapes = ['circle', 'rect', 'triangle', 'rectRot', 'crossRot', 'star'];
  const names = [...new Set(data.rows.map((row) => row.solver))];
  const distilled = new Set(data.rows.filter((row) => row.distilled).map((row) => row.solver));
  const baselines = names.filter((name) => !distilled.has(name));
  const measured = [...new Set(data.rows.map((row) => row.cost))].sort((a, b) => a - b);
  const margin = (measured[measured.length - 1] - measured[0]) * 0.03 || 1;

  function style(name) {
    const isDistilled = distilled.has(name);
    // The best of the catalogue, which has no line, comes after those that have one.
    const known = isDistilled ? [...distilled].indexOf(name) : baselines.indexOf(name);
    const place = known < 0 ? baselines.length : known;
    const series = colour('--series').split(',');
    const own = isDistilled ? colour('--accent') : series[place % series.length].trim();
    return {
      borderColor: own,
      backgroundColor: own,
      borderWidth: isDistilled ? 3.5 : 1.75,
      borderDash: isDistilled && place > 0 ? [8, 4] : [],
      pointStyle: isDistilled ? 'circle' : shapes[place % shapes.length],
      pointRadius: isDistilled ? 5 : 3.5,
      pointHoverRadius: isDistilled ? 7 : 6,
      order: isDistilled ? 0 : 1,
    };
  }

  const axis = (title, more = {}) => ({
    title: {display: true, text: title, color: colour('--soft')},
    grid: {color: colour('--line'), borderColor: colour('--line')},
    ...more,
    ticks: {color: colour('--soft'), maxRotation: 0, ...more.ticks},
  });

  const tooltip = () => ({
    backgroundColor: colour('--ink'),
    titleColor: colour('--page'),
    bodyColor: colour('--page'),
    usePointStyle: true,
    padding: 10,
    itemSort: (a, b) => b.parsed.y - a.parsed.y,
  });

  // `make` gives a chart's data and options; it is asked again when the colours change.
  function draw(id, make) {
    const canvas = $(id);
    let chart = null;
    const redraw = () => {
      const made = make();
      if (!chart) {
        chart = new Chart(canvas, made);
        return;
      }
      const hidden = chart.data.datasets.map((set, i) => !chart.isDatasetVisible(i));
      chart.data = made.data;
      chart.options = made.options;
      hidden.forEach((isHidden, i) => { if (isHidden) chart.setDatasetVisibility(i, false); });
      chart.update('none');
    };
    redraw();
    redraws.push(redraw);
    return {chart, redraw};
  }

  const common = () => ({
    responsive: true,
    maintainAspectRatio: false,
    animation: still.matches ? false : {duration: 500},
    interaction: {mode: 'x', intersect: false},
  });

  function curves(figure) {
    return names.map((name) => ({
      label: name,
      data: data.rows.filter((row) => row.solver === name && row[figure] !== null)
          .map((row) => ({x: row.cost, y: row[figure], error: figure === 'psnr' ? row.psnr_error : null})).sort((a, b) => a.x - b.x),
      ...style(name),
    })).filter((set) => set.data.length > 0);
  }

  // A bar of one standard error up and down, where it is known.
  const errorBars = {
    id: 'errorBars',
    beforeDatasetsDraw(chart) {
      const {ctx, scales} = chart;
      ctx.save();
      chart.data.datasets.forEach((set, i) => {
        if (!chart.isDatasetVisible(i)) return;
        ctx.strokeStyle = set.borderColor;
        ctx.lineWidth = 1.5;
        const points = chart.getDatasetMeta(i).data;
        set.data.forEach(({y, error}, place) => {
          if (!(error > 0)) return;
          const {x: at, y: middle} = points[place];  // which moves while the chart is drawn
          const ends = [-error, error].map((off) => middle + scales.y.getPixelForValue(y + off) - scales.y.getPixelForValue(y));
          ctx.beginPath();
          for (const end of ends) {
            ctx.moveTo(at - 4, end);
            ctx.lineTo(at + 4, end);
          }
          ctx.moveTo(at, ends[0]);
          ctx.lineTo(at, ends[1]);
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };

  function lineChart(figure, title, scale) {
    const {chart} = draw(`chart-${figure}`, () => ({
      type: 'line',
      data: {datasets: curves(figure)},
      plugins: [errorBars],
      options: {
        ...common(),
        scales: {
          x: axis(`${data.unit}s`, {
            type: 'linear',
            min: measured[0] - margin,
            max: measured[measured.length - 1] + margin,
            afterBuildTicks: (scale) => { scale.ticks = measured.map((value) => ({value})); },
          }),
          y: axis(title, {type: scale}),
        },
        plugins: {
          legend: {display: false},
          tooltip: {
            ...tooltip(),
            callbacks: {
              title: (items) => items.length ? counted(items[0].parsed.x) : '',
              label: (item) => ` ${item.dataset.label}: ${item.parsed.y.toPrecision(4)}` +
                               (item.raw.error > 0 ? ` ± ${item.raw.error.toPrecision(2)}` : ''),
            },
          },
        },
      },
    }));
    legend(document.querySelector(`.legend[data-chart="${figure}"]`), chart);
  }

  function legend(place, chart) {
    const paint = () => {
      place.replaceChildren(...chart.data.datasets.map((set, i) => {
        const button = document.createElement('button');
        const swatch = document.createElement('i');
        button.type = 'button';
        button.className = distilled.has(set.label) ? 'distilled' : '';
        button.style.setProperty('--swatch', set.borderColor);
        button.setAttribute('aria-pressed', chart.isDatasetVisible(i));
        button.append(swatch, set.label);
        button.addEventListener('click', () => {
          chart.setDatasetVisibility(i, !chart.isDatasetVisible(i));
          chart.update();
          button.setAttribute('aria-pressed', chart.isDatasetVisible(i));
        });
        return button;
      }));
    };
    paint();
    redraws.push(paint);
  }

  // Distances span decades between few and many evaluations.
  function distanceScale(figure) {
    const values = data.rows.map((row) => row[figure]).filter((value) => value !== null);
    const least = Math.min(...values);
    return least > 0 && Math.max(...values) > 30 * least ? 'logarithmic' : 'linear';
  }

  // ---- Evaluations for equal quality ----------------------------------------------------------

  const valueLabels = {
    id: 'valueLabels',
    afterDatasetsDraw(chart) {
      const {ctx} = chart;
      ctx.save();
      ctx.font = `600 12px ${Chart.defaults.font.family}`;
      ctx.fillStyle = colour('--ink');
      ctx.textBaseline = 'middle';
      chart.getDatasetMeta(0).data.forEach((bar, i) => {
        ctx.fillText(chart.data.datasets[0].texts[i], bar.x + 6, bar.y);
      });
      ctx.restore();
    },
  };

  // Lines of a long name: a grid's options would leave no room for bars on a phone.
  function lines(name) {
    const parts = name.split(/(?<=[/:,@])/);
    return parts.reduce((all, part) => {
      const last = all[all.length - 1];
      if (last !== undefined && (last + part).length <= 20) all[all.length - 1] = last + part;
      else all.push(part);
      return all;
    }, []);
  }

  function bars(target) {
    const needed = target.needed.filter((n) => n.kind !== 'never').sort((a, b) => (a.kind === 'more_than') - (b.kind === 'more_than') ||
                                                     a.cost - b.cost);
    const strong = needed.map((n) => style(n.solver).borderColor);
    return {
      labels: [target.solver, ...needed.map((n) => n.solver)].map(lines),
      datasets: [{
        data: [target.cost, ...needed.map((n) => n.cost)],
        texts: [String(target.cost), ...needed.map((n) => n.text)],
        backgroundColor: [colour('--accent'), ...needed.map((n, i) => n.kind === 'more_than' ? strong[i] + '40' : strong[i])],
        borderColor: [colour('--accent'), ...strong],
        borderWidth: [0, ...needed.map((n) => n.kind === 'more_than' ? 1 : 0)],
        borderRadius: 4,
        barPercentage: 0.78,
      }],
    };
  }

  function equalChart() {
    let target = data.targets[featuredIndex(data.targets)];
    const most = Math.max(...data.targets.flatMap((t) => [t.cost, ...t.needed.map((n) => n.cost)]));
    const mostLines = Math.max(...target.needed.map((n) => lines(n.solver).length), 1);
    const height = Math.max(34, 15 * mostLines + 8);
    $('chart-equal').parentElement.style.height = `${height * (target.needed.length + 1) + 54}px`;
    const {redraw} = draw('chart-equal', () => ({
      type: 'bar',
      data: bars(target),
      plugins: [valueLabels],
      options: {
        ...common(),
        indexAxis: 'y',
        interaction: {mode: 'nearest', axis: 'y', intersect: false},
        layout: {padding: {right: 8}},
        scales: {
          x: axis(`${data.unit}s`, {beginAtZero: true, suggestedMax: most * 1.14}),
          y: axis('', {title: {display: false}, grid: {display: false, borderColor: colour('--line')}, ticks: {autoSkip: false, color: colour('--ink')}}),
        },
        plugins: {
          legend: {display: false},
          tooltip: {...tooltip(), callbacks: {
            title: (items) => items.map((item) => [].concat(bars(target).labels[item.dataIndex]).join('')),
            label: (item) => ` ${item.dataset.texts[item.dataIndex]} ${data.unit}s`,
          }},
        },
      },
    }));
    const items = data.targets.map((t) => `${label(t)} (${t.psnr.toFixed(1)} dB)`);
    chooser('target', items, featuredIndex(data.targets), (chosen) => {
      target = data.targets[chosen];
      redraw();
    });
  }

  // ---- Training -------------------------------------------------------------------------------

  // A line for each start; those that did not win stand back.
  function trainingSets(curve, figure) {
    const starts = [...new Set(curve.points.map((point) => point.start))];
    return starts.map((start) => {
      const wins = !curve.best || curve.best.start === start;
      const points = curve.points.filter((point) => point.start === start && point[figure] !== null);
      const kept = points.map((point) => figure === 'validation_psnr' && wins && curve.best &&
                                         point.iteration === curve.best.iteration);
      const own = wins ? colour('--accent') : colour('--soft');
      return {
        label: starts.length > 1 ? `start ${start + 1}` : 'kept start',
        data: points.map((point) => ({x: point.iteration, y: point[figure]})),
        borderColor: own,
        borderWidth: wins ? 2.5 : 1.25,
        pointRadius: kept.map((k) => k ? 8 : 0),
        pointHitRadius: 10,
        pointBorderWidth: 3,
        pointBackgroundColor: colour('--page'),
        pointBorderColor: own,
        clip: 12,
        order: wins ? 0 : 1,
      };
    });
  }

  function trainingCharts() {
    let curve = data.training[featuredIndex(data.training)];
    const make = (figure, title) => () => ({
      type: 'line',
      data: {datasets: trainingSets(curve, figure)},
      options: {
        ...common(),
        scales: {x: axis('iteration', {type: 'linear', ticks: {precision: 0}}), y: axis(title)},
        plugins: {
          legend: {display: false},
          tooltip: {
            ...tooltip(),
            callbacks: {
              title: (items) => items.length ? `iteration ${items[0].parsed.x}` : '',
              label: (item) => ` ${item.dataset.label}: ${item.parsed.y.toPrecision(4)}`,
            },
          },
        },
      },
    });
    const charts = [draw('chart-validation', make('validation_psnr', 'dB')), draw('chart-loss', make('loss', 'loss'))];
    chooser('curve-choice', data.training.map(label), featuredIndex(data.training), (chosen) => {
      curve = data.training[chosen];
      $('kept').textContent = curve.best ?
          ` (${label(curve)}: iteration ${curve.best.iteration}, ${curve.best.validation_psnr.toFixed(2)} dB)` : '';
      charts.forEach((chart) => chart.redraw());
    });
  }

  // ---- All of them ----------------------------------------------------------------------------

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  lineChart('psnr', 'PSNR in dB', 'linear');
  for (const figure of ['frechet_reference', 'frechet_real']) {
    if ($(`chart-${figure}`)) lineChart(figure, 'Fréchet distance', distanceScale(figure));
  }
  if ($('chart-equal')) equalChart();
  if ($('chart-validation')) trainingCharts();

  const repaint = () => redraws.forEach((redraw) => redraw());
  dark.addEventListener('change', repaint);
  still.addEventListener('change', repaint);
  addEventListener('beforeprint', () => {
    document.documentElement.dataset.print = '';
    repaint();
  });
  addEventListener('afterprint', () => {
    delete document.documentElement.dataset.print;
    repaint();
  });
})();
