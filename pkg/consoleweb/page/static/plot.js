"use strict";
// The lines that the server has drawn become a chart with a cursor and a zoom.
(function () {
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function clock(seconds) {
    return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  }
  // A lag with its unit, as the server says it. A mark of the axis is a round number.
  function said(ms) {
    if (Math.abs(ms) >= 10000) { return (ms / 1000).toFixed(1) + " s"; }
    return ms.toFixed(Math.abs(ms) >= 100 ? 0 : 1) + " ms";
  }
  function mark(ms) {
    return Math.abs(ms) >= 1000 ? Number((ms / 1000).toPrecision(6)) + " s" : Number(ms.toPrecision(6)) + " ms";
  }
  // The axis has room for its longest mark.
  function room(u, marks, axis) {
    if (!marks) { return 50; } // before the first drawing
    u.ctx.save();
    u.ctx.font = u.axes[axis].font[0];
    var widest = Math.max.apply(null, marks.map(function (text) { return u.ctx.measureText(text).width; }));
    u.ctx.restore();
    return Math.ceil(widest / devicePixelRatio) + 20; // with the ticks and the gap
  }
  var chart = null;
  // New figures come into the chart that is there: a reader who has zoomed in stays there.
  function renew(box, data) {
    var x = chart.scales.x, old = chart.data[0], zoomed = old.length > 0 && (x.min !== old[0] || x.max !== old[old.length - 1]);
    box.replaceChildren(chart.root);
    chart.setData(data, !zoomed);
    if (zoomed) { chart.setScale("x", { min: x.min, max: x.max }); }
  }
  function draw() {
    document.querySelectorAll(".plot[data-plot]").forEach(function (box) {
      var data = JSON.parse(box.dataset.plot || "null");
      if (!data || !window.uPlot) { return; }
      var names = box.dataset.names.split(","), colours = ["--good", "--link", "--warn", "--soft"];
      box.removeAttribute("data-plot");
      if (chart) { return renew(box, data); }
      box.replaceChildren();
      var axis = { stroke: colour("--soft"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { stroke: colour("--edge"), width: 1 } };
      chart = new uPlot({
        width: Math.max(300, box.clientWidth), height: 260,
        // The scale begins below zero: what is early would be there, and nothing may be.
        scales: { y: { range: function (u, min, max) { return [Math.min(-max / 8, -2, min), Math.max(10, max * 1.1)]; } } },
        series: [{ label: box.dataset.time, value: function (u, v) { return v == null ? "–" : clock(v); } }].concat(names.map(function (name, i) {
          return { label: name, stroke: colour(colours[i]), width: 1.5, value: function (u, v) { return v == null ? "–" : said(v); } };
        })),
        axes: [Object.assign({ values: function (u, all) { return all.map(clock); } }, axis), Object.assign({ size: room, values: function (u, all) { return all.map(mark); } }, axis)],
        hooks: {
          draw: [function (u) {
            var y = u.valToPos(0, "y", true);
            u.ctx.save();
            u.ctx.strokeStyle = colour("--bad");
            u.ctx.lineWidth = 2;
            u.ctx.beginPath();
            u.ctx.moveTo(u.bbox.left, y);
            u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
            u.ctx.stroke();
            u.ctx.fillStyle = colour("--bad");
            u.ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
            u.ctx.textAlign = "left";
            u.ctx.fillText(box.dataset.early, u.bbox.left + 4, y + 15 * devicePixelRatio);
            u.ctx.restore();
          }],
        },
      }, data, box);
    });
  }
  draw();
  document.addEventListener("htmx:afterSettle", draw);
})();
