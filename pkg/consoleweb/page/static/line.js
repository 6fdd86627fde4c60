"use strict";
// Tasks on an owner's line can be dragged to another time. The page asks before anything is changed; if it is not, the point
// goes back to its place. The line is replaced by newer ones, but not while a point of it is away from its place (.moving).
(function () {
  var output = document.getElementById("drag"), moving = null, dropped = null;

  function take(link) {
    var circle = link.querySelector("circle"), cx = circle.getAttribute("cx");
    link.classList.add("moving");
    return { link: link, circle: circle, line: link.closest("svg.line"), cx: cx, part: parseFloat(cx) / 100 };
  }
  // show puts a point at a part of its line's length, and says what time that is.
  function show(what, part) {
    var from = Number(what.line.dataset.from), length = Number(what.line.dataset.to) - from;
    var step = length > 2 * 86400000 ? 60000 : 1000;
    what.part = Math.min(1, Math.max(0, part));
    what.at = new Date(Math.round((from + what.part * length) / step) * step);
    what.circle.setAttribute("cx", what.part * 100 + "%");
    output.textContent = what.at.toLocaleString("sv-SE", { timeZone: output.dataset.zone }); // Swedish has the form of the server's moments
  }
  function back(what) {
    if (!what) { return; }
    what.circle.setAttribute("cx", what.cx);
    what.link.classList.remove("moving");
    output.textContent = "";
  }
  // move asks for the time that was said.
  function move(what) {
    dropped = what;
    window.duetimeAsk("change?" + new URLSearchParams({
      do: "task.move", id: what.link.dataset.id, version: what.link.dataset.version, at: what.at.toISOString(),
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
    var box = moving.line.getBoundingClientRect();
    show(moving, (e.clientX - box.left) / box.width);
  });
  document.addEventListener("pointerup", function (e) {
    var what = moving;
    moving = null;
    if (!what) { return; }
    if (!what.moved) { return back(what); }
    // The click that follows would open the task.
    what.link.addEventListener("click", function (e) { e.preventDefault(); }, { once: true });
    move(what);
  });
  document.addEventListener("pointercancel", function () {
    back(moving);
    moving = null;
  });
  // By the keyboard: arrows move a point that has the focus, Enter opens the task, and Space asks for the move.
  document.addEventListener("keydown", function (e) {
    var link = free(e);
    if (!link) { return; }
    var arrow = e.key === "ArrowLeft" ? -0.002 : e.key === "ArrowRight" ? 0.002 : 0;
    if (!dropped || dropped.link !== link) {
      if (!arrow) { return; }
      back(dropped);
      dropped = take(link);
    }
    if (arrow) {
      e.preventDefault();
      show(dropped, dropped.part + arrow);
    } else if (e.key === " ") {
      e.preventDefault();
      move(dropped);
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
