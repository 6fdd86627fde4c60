"use strict";
// The lines that the server has drawn become a chart with a cursor and a zoom.
(function () {
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function clock(seconds) {
    return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  }
  function draw() {
    document.querySelectorAll(".plot[data-plot]").forEach(function (box) {
      var data = JSON.parse(box.dataset.plot || "null");
      if (!data || !window.uPlot) { return; }
      var names = box.dataset.names.split(","), colours = ["--good", "--link", "--warn", "--soft"];
      box.removeAttribute("data-plot");
      box.replaceChildren();
      var axis = { stroke: colour("--soft"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { stroke: colour("--edge"), width: 1 } };
      new uPlot({
        width: Math.max(300, box.clientWidth), height: 260,
        // The scale begins below zero: what is early would be there, and nothing may be.
        scales: { y: { range: function (u, min, max) { return [Math.min(-max / 8, -2, min), Math.max(10, max * 1.1)]; } } },
        series: [{ label: box.dataset.time, value: function (u, v) { return v == null ? "–" : clock(v); } }].concat(names.map(function (name, i) {
          return { label: name, stroke: colour(colours[i]), width: 1.5, value: function (u, v) { return v == null ? "–" : v.toFixed(1) + " ms"; } };
        })),
        axes: [Object.assign({ values: function (u, all) { return all.map(clock); } }, axis), Object.assign({ size: 70, values: function (u, all) { return all.map(function (v) { return v + " ms"; }); } }, axis)],
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
