"use strict";
// Tasks on an owner's line can be dragged to another time. The page asks before anything is changed; if it is not, the point
// goes back to its place.
(function () {
  var line = document.querySelector("svg.line");
  if (!line) { return; }
  var from = Number(line.dataset.from), to = Number(line.dataset.to), pad = Number(line.dataset.pad);
  var width = line.viewBox.baseVal.width, output = document.getElementById("drag");
  var moving = null, dropped = null;

  function place(e) {
    var at = new DOMPoint(e.clientX, e.clientY).matrixTransform(line.getScreenCTM().inverse());
    return Math.min(width - pad, Math.max(pad, at.x));
  }
  function moment(x) {
    var ms = from + (x - pad) / (width - 2 * pad) * (to - from);
    var step = to - from > 2 * 86400000 ? 60000 : 1000;
    return new Date(Math.round(ms / step) * step);
  }
  function back(what) { if (what) { what.circle.setAttribute("cx", what.cx); output.textContent = ""; } }
  function move(what, at) {
    dropped = what;
    window.duetimeAsk("change?" + new URLSearchParams({
      do: "task.move", id: what.link.dataset.id, version: what.link.dataset.version, at: at.toISOString(),
    }).toString());
  }

  line.addEventListener("dragstart", function (e) { e.preventDefault(); });
  line.addEventListener("pointerdown", function (e) {
    var link = e.target.closest("a.free");
    if (!link || e.button !== 0) { return; }
    var circle = link.querySelector("circle");
    moving = { link: link, circle: circle, cx: circle.getAttribute("cx"), x: e.clientX, moved: false };
    link.setPointerCapture(e.pointerId);
  });
  line.addEventListener("pointermove", function (e) {
    if (!moving || !moving.moved && Math.abs(e.clientX - moving.x) < 4) { return; }
    moving.moved = true;
    moving.link.classList.add("moving");
    moving.circle.setAttribute("cx", place(e));
    output.textContent = moment(place(e)).toLocaleString(document.documentElement.lang);
  });
  line.addEventListener("pointerup", function (e) {
    var what = moving;
    moving = null;
    if (!what) { return; }
    what.link.classList.remove("moving");
    if (what.moved) {
      // The click that follows would open the task.
      what.link.addEventListener("click", function (e) { e.preventDefault(); }, { once: true });
      move(what, moment(place(e)));
    }
  });
  line.addEventListener("pointercancel", function () {
    back(moving);
    moving = null;
  });
  // By the keyboard: arrows move a point that has the focus, Enter opens the task, and Space asks for the move.
  line.addEventListener("keydown", function (e) {
    var link = e.target.closest("a.free");
    if (!link) { return; }
    var circle = link.querySelector("circle"), x = Number(circle.getAttribute("cx"));
    if (!dropped || dropped.link !== link) {
      if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") { return; }
      back(dropped);
      dropped = { link: link, circle: circle, cx: circle.getAttribute("cx") };
    }
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      e.preventDefault();
      x = Math.min(width - pad, Math.max(pad, x + (e.key === "ArrowLeft" ? -2 : 2)));
      circle.setAttribute("cx", x);
      output.textContent = moment(x).toLocaleString(document.documentElement.lang);
    } else if (e.key === " ") {
      e.preventDefault();
      move(dropped, moment(x));
    } else if (e.key === "Escape") {
      back(dropped);
      dropped = null;
    }
  });
  document.addEventListener("duetime:unchanged", function () {
    back(dropped);
    dropped = null;
  });
})();
