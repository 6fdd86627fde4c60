"use strict";
// The now line, the lessons below it, and the judge.
(function () {
  var page = window.petGame, say = page.say, byId = function (id) { return document.getElementById(id); };
  var judgeRest = 2000; // ms between two looks at the judge, who caches
  var mostTold = 2; // lines, for which the page keeps room
  var lesson = null; // the one whose outcome is awaited
  var workers = [], seen = null;

  page.width = function () {
    return Math.max(280, Math.min(4000, (byId("now").clientWidth || document.querySelector("main").clientWidth - 70)));
  };

  function tell(text) {
    var p = document.createElement("p"), box = byId("told");
    p.textContent = text;
    box.append(p);
    while (box.children.length > mostTold) { box.firstElementChild.remove(); }
  }

  // Dots are kept from one drawing to the next, so that they go where they are wanted.
  function redraw(text) {
    var fresh = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
    var box = byId("now"), line = box.firstElementChild, dots = new Map();
    if (!line) {
      box.append(fresh);
      return fresh;
    }
    Array.prototype.forEach.call(fresh.attributes, function (a) { line.setAttribute(a.name, a.value); });
    Array.prototype.slice.call(line.children).forEach(function (e) {
      if (e.dataset.task) { dots.set(e.dataset.task, e); } else { e.remove(); }
    });
    var first = line.firstElementChild;
    Array.prototype.slice.call(fresh.children).forEach(function (e) {
      var dot = dots.get(e.dataset.task);
      if (dot) {
        ["class", "transform"].forEach(function (name) { dot.setAttribute(name, e.getAttribute(name)); });
        dot.replaceChildren.apply(dot, e.childNodes);
        dots.delete(e.dataset.task);
      } else if (e.localName === "g") {
        line.append(e);
      } else {
        line.insertBefore(e, first);
      }
    });
    dots.forEach(function (dot) { dot.remove(); });
    line.append(line.querySelector(".walker"));
    return line;
  }

  function label(line) {
    line.querySelectorAll("[data-word]").forEach(function (e) { e.textContent = say(e.dataset.word); });
    line.querySelectorAll("[data-at]").forEach(function (e) {
      e.textContent = page.clock(Number(e.dataset.at)).slice(0, e.classList.contains("far") ? 5 : 8);
    });
    line.setAttribute("aria-label", say("line", line.querySelectorAll(".past").length, line.querySelectorAll(".future").length, line.querySelectorAll(".late").length));
    var it = target();
    line.querySelectorAll("[data-pet]").forEach(function (e) {
      e.classList.toggle("it", Boolean(it) && e.dataset.task === it.pet.meal.task_id);
    });
  }

  // Now walks between two drawings.
  function walk() {
    var line = byId("now").firstElementChild, walker = line && line.querySelector(".walker");
    if (walker) {
      var px = Math.max(0, page.now() - Number(line.dataset.now)) / 1000 * Number(line.dataset.second);
      px = Math.min(px, page.width() - Number(walker.dataset.x) - 10);
      walker.setAttribute("transform", "translate(" + px.toFixed(1) + ")");
    }
    requestAnimationFrame(walk);
  }

  // The pet of the lessons: the one that was used last, or else the one whose meal ends next.
  function target() {
    var it = page.cards.get(page.touched), now = page.now();
    if (it && it.due) { return it; }
    it = null;
    page.cards.forEach(function (card) {
      if (card.due > now && (!it || card.due < it.due)) { it = card; }
    });
    return it;
  }

  function button(name) { return document.querySelector("[data-lesson=" + name + "]"); }

  function showButtons(it) {
    byId("it").textContent = it ? say("it", it.pet.name) : say("noit");
    button("speedup").disabled = !it || it.pet.speedup_cards < 1;
    button("autofeed").disabled = !it || it.pet.autofeed_cards < 1;
    button("cancel").disabled = !it;
    button("kill").disabled = !alive().length;
  }

  function alive() { return workers.filter(function (w) { return w.alive; }); }

  page.idle = function () { return workers.length > 0 && !alive().length; };

  function showWorkers() {
    byId("workers").replaceChildren.apply(byId("workers"), workers.map(function (w) {
      var e = document.createElement("span");
      e.className = w.alive ? "alive" : "dead";
      e.textContent = say(w.alive ? "works" : "isdead", w.name);
      return e;
    }));
  }

  // What becomes of the lesson: of its meal, or of the meals that waited for a worker.
  function follow(answer) {
    if (!lesson) { return; }
    page.cards.forEach(function (card) {
      if (lesson.kill && card.waits) { lesson.waiting.set(card.pet.meal.task_id, card.pet.name); }
    });
    answer.ended.forEach(function (end) {
      var card = page.cards.get(end.pet_id), mine = lesson.kill ? end.at_ms >= lesson.at : end.task_id === lesson.task;
      if (!card || !mine || end.event !== "meal_finished" || lesson.over.has(end.task_id)) { return; }
      lesson.over.set(end.task_id, { name: card.pet.name, lag: end.lag_ms, times: end.times });
      lesson.waiting.delete(end.task_id);
    });
    if (!lesson.over.size || lesson.waiting.size || lesson.kill && !alive().length) { return; }
    var all = Array.from(lesson.over.values()), most = all.reduce(function (a, b) { return b.lag > a.lag ? b : a; });
    var times = Math.max.apply(null, all.map(function (e) { return e.times; }));
    tell(all.length === 1 ? most.name + ": " + say(times === 1 ? "traceonce" : "tracemany", page.delay(most.lag), times)
      : say(times === 1 ? "allonce" : "allmany", all.length, page.delay(most.lag), times));
    lesson = null;
  }

  page.look = function (answer) {
    var before = seen;
    workers = answer.workers || [];
    seen = new Map(workers.map(function (w) { return [w.name, w.alive]; }));
    if (before) {
      workers.forEach(function (w) { if (w.alive && before.get(w.name) === false) { tell(say("back", w.name)); } });
    }
    button("kill").hidden = !answer.kill;
    button("flush").hidden = !answer.flush;
    showWorkers();
    follow(answer);
    label(redraw(answer.line));
    showButtons(target());
  };

  page.speak = function () {
    var line = byId("now").firstElementChild;
    if (line) { label(line); }
    showButtons(target());
    showWorkers();
  };

  var acts = {
    kill: async function () {
      var did = await page.act("POST", "lessons/kill");
      if (!did) { return; }
      var left = did.workers.filter(function (w) { return w.alive && w.name !== did.killed; });
      lesson = { kill: true, at: page.now(), waiting: new Map(), over: new Map() };
      tell(left.length ? say("killed", did.killed, left[0].name) : say("killedlast", did.killed));
    },
    flush: async function () {
      var did = await page.act("POST", "lessons/flush");
      if (did) { tell(say("flushed", did.keys)); }
    },
  };

  function onIt(what, word) {
    return async function () {
      var it = target(), id = it && it.pet.meal && it.pet.meal.task_id;
      if (!it) { return; }
      var did = await page.play(it.pet.id, what);
      if (!did) { return; }
      tell(say(word, did.name, page.whole(page.rules().speedup), did.meal ? did.meal.version : ""));
      lesson = what === "cancel" ? null : { task: id, waiting: new Map(), over: new Map() };
    };
  }
  acts.speedup = onIt("speedup", "didmove");
  acts.cancel = onIt("cancel", "didcancel");
  acts.autofeed = onIt("autofeed", "didarm");

  document.querySelector(".lessons").addEventListener("click", function (e) {
    if (e.target.dataset.lesson) { acts[e.target.dataset.lesson](); }
  });

  byId("adopt").addEventListener("click", async function () {
    var owner = byId("make").elements.owner.value, made = null;
    byId("adopt").disabled = true;
    for (var name of say("names").split(" ")) {
      made = await page.act("POST", "pets", { owner: owner, name: name });
      made = made && await page.act("POST", "pets/" + made.id + "/feed");
      if (!made) { break; }
    }
    byId("adopt").disabled = false;
    if (made) {
      page.touched = made.id;
      tell(say("adopted"));
    }
  });

  async function judge() {
    var p = byId("judge"), v = null;
    if (!document.hidden) {
      try { v = await page.call("GET", "judge"); } catch (e) { v = null; }
      var words = v ? [v.lost, v.doubled, v.early] : ["–", "–", "–"];
      p.textContent = say("judge", words[0], words[1], words[2]);
      p.title = v ? say("judgeof", v.meals, page.clock(v.at_ms).slice(0, 8)) : say("nojudge");
      p.classList.toggle("bad", Boolean(v && v.lost + v.doubled + v.early));
      p.hidden = false;
    }
    setTimeout(judge, judgeRest);
  }

  page.begin();
  judge();
  if (!page.calm) { walk(); }
})();
