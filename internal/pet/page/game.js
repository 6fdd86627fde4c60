"use strict";
(function () {
  var jump = 700; // ms that the ring takes to another moment
  var late = 1000; // ms after its time a meal is late, as on the console
  var fresh = 10000; // ms for which an end is news
  var rest = 1000, least = 250; // ms between two looks: a meal that ends asks for one sooner
  var lang = localStorage.getItem("lang") || (navigator.language.startsWith("zh") ? "zh" : "en");
  var owner = new URLSearchParams(location.search).get("owner") || "";
  var address = document.body.dataset.console, calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  var cards = new Map(), rules = { meal: 1, speedup: 1 }, ahead = 0, ends = new Map(), asked = 0, failed = false, next = 0;
  var page = (window.petGame = { owner: owner, cards: cards, calm: calm, touched: "" }); // what lessons.js uses
  var byId = function (id) { return document.getElementById(id); };

  function say(key) {
    var values = Array.prototype.slice.call(arguments, 1);
    return (gameWords[lang][key] || key).replace(/\{(\d)\}/g, function (_, i) { return values[i]; });
  }

  function translate(within) {
    within.querySelectorAll("[data-word]").forEach(function (e) { e.textContent = say(e.dataset.word); });
  }

  function two(n) { return String(n).padStart(2, "0"); }

  // A time that is left, or the length of a meal.
  function length(ms) {
    var s = Math.max(0, ms) / 1000;
    if (s < 10) { return s.toFixed(1) + " s"; }
    s = Math.ceil(s);
    if (s < 60) { return s + " s"; }
    var h = Math.floor(s / 3600);
    return (h ? h + ":" + two(Math.floor(s / 60) % 60) : Math.floor(s / 60)) + ":" + two(s % 60);
  }

  // How late something is.
  function delay(ms) { return ms < 1000 ? ms + " ms" : (ms / 1000).toFixed(1) + " s"; }

  function whole(ms) {
    return ms % 3600000 === 0 ? ms / 3600000 + " h" : ms % 60000 === 0 ? ms / 60000 + " min" : ms / 1000 + " s";
  }

  function moment(ms) {
    var at = new Date(ms);
    return two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds()) + "." + String(at.getMilliseconds()).padStart(3, "0");
  }

  function notice(text, bad) {
    var p = byId("notice");
    p.hidden = !text;
    p.textContent = text;
    p.className = "notice" + (bad ? " bad" : "");
  }

  async function call(method, path, body) {
    var key = window.crypto && crypto.randomUUID ? crypto.randomUUID() : String(Date.now()) + Math.random();
    var res = await fetch("v1/" + path, {
      method: method, headers: method === "GET" ? {} : { "Idempotency-Key": key }, body: body && JSON.stringify(body),
    });
    var answer = await res.json();
    if (!res.ok) {
      var e = answer.error, code = e.field && e.code + "_" + e.field in gameWords[lang] ? e.code + "_" + e.field : e.code;
      throw Object.assign(new Error(e.message), { code: code });
    }
    return answer;
  }

  async function act(method, path, body) {
    try {
      var answer = await call(method, path, body);
      notice("");
      return answer;
    } catch (e) {
      notice(e.code in gameWords[lang] ? say(e.code) : e.code ? e.message : say("away"), true);
      return null;
    } finally {
      refresh();
    }
  }

  function play(id, what) {
    page.touched = id;
    return what === "cancel" ? act("DELETE", "pets/" + id + "/meal") : act("POST", "pets/" + id + "/" + what);
  }

  function newCard(pet) {
    var card = { e: byId("pet").content.firstElementChild.cloneNode(true), due: 0 };
    card.e.classList.add("shape-" + pet.id % 3, "fur-" + pet.id % 5);
    card.part = function (selector) { return card.e.querySelector(selector); };
    card.e.addEventListener("click", function (e) {
      if (e.target.dataset.act) { play(pet.id, e.target.dataset.act); }
    });
    card.part("h2").textContent = pet.name;
    card.part(".dial").setAttribute("aria-label", pet.name); // until it is drawn
    card.part(".owner").textContent = pet.owner;
    card.part(".owner").hidden = Boolean(owner); // whom the page is about
    card.part(".owner").href = "?" + new URLSearchParams({ owner: pet.owner });
    translate(card.e);
    return card;
  }

  function traceOf(end) {
    if (end.event === "meal_cancelled") { return say("tracecancelled"); }
    return say(end.times === 1 ? "traceonce" : "tracemany", delay(end.lag_ms), end.times);
  }

  function taskLine(card, pet) {
    var line = card.part(".task"), last = ends.get(pet.id), of = pet.meal || last;
    card.part(".trace").textContent = last ? traceOf(last) : "";
    card.part(".trace").classList.toggle("fresh", Boolean(last) && last.times === 1 && page.now() - last.at_ms < fresh);
    card.part(".trace").classList.toggle("late", Boolean(last) && last.lag_ms > late);
    card.e.classList.toggle("cancelled", Boolean(!pet.meal && last && last.event === "meal_cancelled"));
    line.replaceChildren();
    if (!of) { return; }
    var link = document.createElement(address ? "a" : "span");
    link.textContent = "…" + of.task_id.slice(-8); // the first ones are the time, and much the same
    link.title = of.task_id;
    if (address) { link.href = address + "task?" + new URLSearchParams({ id: of.task_id }); }
    line.append(say("task") + " ", link, " · v" + of.version);
  }

  // Where no worker is alive a meal waits from its first moment on.
  function wait(card, now) {
    card.waits = card.due > 0 && now - card.due > (page.idle() ? 0 : late);
    card.e.classList.toggle("waits", card.waits);
  }

  function update(card, pet) {
    var due = pet.meal ? pet.meal.due_at_ms : 0;
    if (due !== card.due) {
      card.from = card.due ? shown(card) : due;
      card.due = due;
      card.changed = performance.now();
    }
    card.pet = pet;
    card.e.classList.toggle("eating", Boolean(due));
    wait(card, page.now());
    card.part(".food-left").textContent = pet.food;
    card.part(".eaten").textContent = pet.meals_eaten;
    card.part(".armed").textContent = pet.autofeed_armed;
    var button = function (act, text, on) {
      var b = card.part("[data-act=" + act + "]");
      if (text) { b.textContent = text; }
      b.disabled = !on;
    };
    button("feed", "", !due && pet.food > 0);
    button("speedup", say("speedup", pet.speedup_cards), due && pet.speedup_cards > 0);
    button("autofeed", say("autofeed", pet.autofeed_cards), due && pet.autofeed_cards > 0);
    button("cancel", "", due);
    taskLine(card, pet);
  }

  // The moment that the ring shows: after a change it goes to the new one.
  function shown(card) {
    var part = calm ? 1 : Math.min(1, (performance.now() - card.changed) / jump);
    part = 1 - Math.pow(1 - part, 3);
    return card.from + (card.due - card.from) * part;
  }

  function draw() {
    var now = Date.now() + ahead;
    cards.forEach(function (card) {
      wait(card, now);
      var left = card.due ? Math.max(0, shown(card) - now) : 0, part = Math.min(1, left / rules.meal);
      card.part(".ring").setAttribute("stroke-dashoffset", String(1000 * (1 - part)));
      card.part(".food").setAttribute("ry", String(card.due ? 3 + 11 * part : 0));
      var text = !card.due ? say("hungry") : card.waits ? say("late", delay(Math.max(0, now - card.due))) : length(left), clock = card.part(".clock");
      if (clock.textContent !== text) {
        clock.textContent = text;
        card.part(".dial").setAttribute("aria-label", say(!card.due ? "idle" : card.waits ? "waits" : "dial", card.pet.name, text));
      }
    });
    requestAnimationFrame(draw);
  }

  function showPets(answer) {
    ahead = answer.now_ms - Date.now();
    rules = { meal: answer.meal_ms, speedup: answer.speedup_ms };
    byId("rules").textContent = say("rules", whole(rules.meal), whole(rules.speedup));
    var grid = byId("pets"), gone = new Set(cards.keys());
    answer.pets.forEach(function (pet, i) {
      var card = cards.get(pet.id);
      if (!card) {
        card = newCard(pet);
        cards.set(pet.id, card);
      }
      gone.delete(pet.id);
      update(card, pet);
      if (grid.children[i] !== card.e) { grid.insertBefore(card.e, grid.children[i] || null); }
    });
    gone.forEach(function (id) {
      cards.get(id).e.remove();
      cards.delete(id);
    });
    byId("none").hidden = cards.size > 0;
    byId("all").hidden = !owner || !cards.size;
    document.querySelector(".sheet").hidden = !cards.size;
    byId("adopt").classList.toggle("main", cards.size === 0);
    byId("strip").hidden = cards.size === 0 && !byId("told").hasChildNodes();
    byId("all").disabled = !answer.pets.some(function (p) { return p.meal && p.speedup_cards; });
  }

  function showLines(lines) {
    byId("lines").replaceChildren.apply(byId("lines"), lines.map(function (l) {
      var row = document.createElement("tr"), lag = l.at_ms - l.due_at_ms, ended = l.event === "meal_finished";
      [moment(l.at_ms), l.name + (owner ? "" : " (" + l.owner + ")"), say(l.event), ended ? delay(lag) : "", l.version].forEach(function (text, i) {
        var cell = document.createElement("td");
        cell.textContent = text;
        if (i > 2) { cell.className = "n"; }
        row.append(cell);
      });
      return row;
    }));
  }

  // A table that is wider than the page can be scrolled by the keyboard.
  function reachWide() {
    var box = document.querySelector(".wide");
    if (box.scrollWidth > box.clientWidth) { box.tabIndex = 0; } else { box.removeAttribute("tabindex"); }
  }

  // What happens elsewhere appears at the next look, a second later at most.
  async function refresh() {
    clearTimeout(next);
    var nth = ++asked, of = new URLSearchParams(owner ? { owner: owner } : {});
    try {
      var got = await Promise.all([call("GET", "pets?" + of), call("GET", "journal?" + of), call("GET", "now?width=" + page.width() + "&" + of)]);
      if (nth !== asked) { return; } // a newer one is on its way
      ends = new Map(got[2].ended.map(function (end) { return [end.pet_id, end]; }));
      showLines(got[1].lines);
      reachWide();
      showPets(got[0]);
      page.look(got[2]);
      if (failed) { notice(""); }
      failed = false;
    } catch (e) {
      failed = true;
      notice(e.code ? e.message : say("away"), true);
    }
    if (nth === asked) { next = setTimeout(again, untilNext()); }
  }

  function untilNext() {
    var now = page.now(), wait = rest;
    cards.forEach(function (card) {
      if (card.due && now - card.due < fresh) { wait = Math.min(wait, card.due - now + 40); }
    });
    return Math.max(least, wait);
  }

  function again() {
    if (document.hidden) { next = setTimeout(again, rest); } else { refresh(); }
  }

  function speak() {
    document.documentElement.lang = lang === "zh" ? "zh-Hans" : "en";
    byId("lang").textContent = lang === "zh" ? "English" : "中文";
    byId("lang").lang = lang === "zh" ? "en" : "zh-Hans";
    translate(document);
    cards.forEach(function (card) { translate(card.e); });
    byId("all").textContent = say("all", owner);
    page.speak();
  }

  byId("lang").addEventListener("click", function () {
    lang = lang === "zh" ? "en" : "zh";
    localStorage.setItem("lang", lang);
    speak();
    refresh();
  });
  byId("make").addEventListener("submit", function (e) {
    e.preventDefault();
    act("POST", "pets", Object.fromEntries(new FormData(e.target)));
  });
  byId("show").addEventListener("click", function () {
    location.search = new URLSearchParams({ owner: byId("make").elements.owner.value });
  });
  byId("all").addEventListener("click", async function () {
    var did = await act("POST", "owners/" + encodeURIComponent(owner) + "/speedup");
    if (did) { notice(say("did", did.moved, owner)); }
  });
  if (owner) { byId("make").elements.owner.value = owner; }
  if (address) {
    byId("console").href = address;
    byId("console").hidden = false;
  }
  Object.assign(page, {
    say: say, call: call, act: act, play: play, delay: delay, whole: whole, clock: moment, notice: notice, rules: function () { return rules; },
    now: function () { return Date.now() + ahead; },
    begin: function () {
      speak();
      refresh();
      draw();
    },
  });
})();
