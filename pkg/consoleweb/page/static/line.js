"use strict";
// Tasks on an owner's line can be dragged to another time. The page asks before anything is changed; if it is not, the point
// goes back to its place. The line is replaced by newer ones, but not while a point of it is away from its place (.moving).
(function () {
  var output = document.getElementById("drag"), moving = null, dropped = null;

  // The line of a point, and what its ends mean.
  function lineOf(link) {
    var line = link.closest("svg.line"), width = line.viewBox.baseVal.width;
    var pad = Number(line.dataset.pad), from = Number(line.dataset.from), to = Number(line.dataset.to);
    return {
      within: function (x) { return Math.min(width - pad, Math.max(pad, x)); },
      place: function (e) {
        return this.within(new DOMPoint(e.clientX, e.clientY).matrixTransform(line.getScreenCTM().inverse()).x);
      },
      moment: function (x) {
        var ms = from + (x - pad) / (width - 2 * pad) * (to - from);
        var step = to - from > 2 * 86400000 ? 60000 : 1000;
        return new Date(Math.round(ms / step) * step);
      },
    };
  }
  function take(link) {
    var circle = link.querySelector("circle");
    link.classList.add("moving");
    return { link: link, circle: circle, cx: circle.getAttribute("cx"), line: lineOf(link) };
  }
  function show(what, x) {
    what.circle.setAttribute("cx", x);
    output.textContent = what.line.moment(x).toLocaleString(document.documentElement.lang);
  }
  function back(what) {
    if (!what) { return; }
    what.circle.setAttribute("cx", what.cx);
    what.link.classList.remove("moving");
    output.textContent = "";
  }
  function move(what, at) {
    dropped = what;
    window.duetimeAsk("change?" + new URLSearchParams({
      do: "task.move", id: what.link.dataset.id, version: what.link.dataset.version, at: at.toISOString(),
    }).toString());
  }
  function free(e) { return e.target.closest("svg.line a.free"); }

  document.addEventListener("dragstart", function (e) {
    if (e.target.closest && free(e)) { e.preventDefault(); } // a text has no closest
  });
  document.addEventListener("pointerdown", function (e) {
    var link = free(e);
    if (!link || e.button !== 0) { return; }
    back(dropped);
    dropped = null;
    moving = take(link);
    moving.x = e.clientX;
    link.setPointerCapture(e.pointerId);
  });
  document.addEventListener("pointermove", function (e) {
    if (!moving || !moving.moved && Math.abs(e.clientX - moving.x) < 4) { return; }
    moving.moved = true;
    show(moving, moving.line.place(e));
  });
  document.addEventListener("pointerup", function (e) {
    var what = moving;
    moving = null;
    if (!what) { return; }
    if (!what.moved) { return back(what); }
    // The click that follows would open the task.
    what.link.addEventListener("click", function (e) { e.preventDefault(); }, { once: true });
    move(what, what.line.moment(what.line.place(e)));
  });
  document.addEventListener("pointercancel", function () {
    back(moving);
    moving = null;
  });
  // By the keyboard: arrows move a point that has the focus, Enter opens the task, and Space asks for the move.
  document.addEventListener("keydown", function (e) {
    var link = free(e);
    if (!link) { return; }
    var arrow = e.key === "ArrowLeft" ? -2 : e.key === "ArrowRight" ? 2 : 0;
    if (!dropped || dropped.link !== link) {
      if (!arrow) { return; }
      back(dropped);
      dropped = take(link);
    }
    if (arrow) {
      e.preventDefault();
      show(dropped, dropped.line.within(Number(dropped.circle.getAttribute("cx")) + arrow));
    } else if (e.key === " ") {
      e.preventDefault();
      move(dropped, dropped.line.moment(Number(dropped.circle.getAttribute("cx"))));
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
