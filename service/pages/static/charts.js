// Draws the charts of a page anew as they come into view, so that a pointer finds each figure.
// A chart is an element .chart with a drawing, and its Vega specification as JSON beside it. Where
// anything fails, the drawing stays. The interpreter evaluates expressions without code from text,
// which the page's policy forbids.
(() => {
  "use strict";

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  let library = null;

  function load() {
    library ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = "/static/vega/vega.min.js";
      script.onload = () => done(window.gramwattVega);
      script.onerror = failed;
      document.head.append(script);
    });
    return library;
  }

  function show(handler, event, item, text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const above = event.clientY - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + tip.offsetHeight < window.innerHeight ? below : Math.max(8, above)}px`;
  }

  async function draw(chart, data) {
    const { View, parse, expressionInterpreter } = await load();
    const place = document.createElement("div");
    const runtime = parse(JSON.parse(data.textContent), null, { ast: true });
    const view = new View(runtime, { expr: expressionInterpreter, renderer: "svg", container: place });
    view.tooltip(show);
    await view.runAsync();
    const drawing = place.querySelector("svg");
    drawing.removeAttribute("width");  // so that it takes the width of its place, as the first does
    drawing.removeAttribute("height");
    drawing.setAttribute("aria-hidden", "true");
    chart.querySelector("svg").replaceWith(place);
    data.remove();
    chart.classList.add("interactive");
  }

  const watch = new IntersectionObserver(entries => {
    for (const entry of entries.filter(entry => entry.isIntersecting)) {
      watch.unobserve(entry.target);
      const data = entry.target.querySelector("script[type='application/json']");
      draw(entry.target, data).catch(() => {});
    }
  }, { rootMargin: "200px" });

  const charts = document.querySelectorAll(".chart:has(> script[type='application/json'])");
  if (charts.length) document.querySelector("main").append(tip);
  charts.forEach(chart => watch.observe(chart));
  document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });
})();
