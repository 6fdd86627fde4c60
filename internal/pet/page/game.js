"use strict";
(function () {
  var jump = 700; // ms that the ring takes to another moment
  var lang = localStorage.getItem("lang") || (navigator.language.startsWith("zh") ? "zh" : "en");
  var owner = new URLSearchParams(location.search).get("owner") || "";
  var address = document.body.dataset.console, calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  var cards = new Map(), rules = { meal: 1, speedup: 1 }, ahead = 0, lags = new Map(), asked = 0, failed = false;
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
    if (!res.ok) { throw Object.assign(new Error(answer.error.message), { code: answer.error.code }); }
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

  function newCard(pet) {
    var card = { e: byId("pet").content.firstElementChild.cloneNode(true), due: 0 };
    card.e.classList.add("shape-" + pet.id % 3, "fur-" + pet.id % 5);
    card.part = function (selector) { return card.e.querySelector(selector); };
    card.e.addEventListener("click", function (e) {
      var what = e.target.dataset.act;
      if (what === "cancel") {
        act("DELETE", "pets/" + pet.id + "/meal");
      } else if (what) {
        act("POST", "pets/" + pet.id + "/" + what);
      }
    });
    card.part("h2").textContent = pet.name;
    card.part(".owner").textContent = pet.owner;
    card.part(".owner").href = "?" + new URLSearchParams({ owner: pet.owner });
    translate(card.e);
    return card;
  }

  function taskLine(card, pet) {
    var line = card.part(".task"), last = lags.get(pet.id), id = pet.meal ? pet.meal.task_id : last && last.task;
    line.replaceChildren();
    if (!id) { return; }
    var link = document.createElement(address ? "a" : "span");
    link.textContent = id;
    if (address) { link.href = address + "task?" + new URLSearchParams({ id: id }); }
    line.append(say("task") + " ", link);
    if (pet.meal || last) { line.append(" · v" + (pet.meal ? pet.meal.version : last.version)); }
    if (last) { line.append(" · " + say("lastlag", last.lag + " ms")); }
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
      var left = card.due ? Math.max(0, shown(card) - now) : 0, part = Math.min(1, left / rules.meal);
      card.part(".ring").setAttribute("stroke-dashoffset", String(1000 * (1 - part)));
      card.part(".food").setAttribute("ry", String(card.due ? 3 + 11 * part : 0));
      var text = card.due ? length(left) : say("hungry"), clock = card.part(".clock");
      if (clock.textContent !== text) {
        clock.textContent = text;
        card.part(".dial").setAttribute("aria-label", card.due ? say("dial", card.pet.name, text) : say("idle", card.pet.name));
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
    byId("all").disabled = !answer.pets.some(function (p) { return p.meal && p.speedup_cards; });
  }

  function showLines(lines) {
    lags.clear();
    byId("lines").replaceChildren.apply(byId("lines"), lines.map(function (l) {
      var row = document.createElement("tr"), lag = l.at_ms - l.due_at_ms, ended = l.event === "meal_finished";
      if (ended && !lags.has(l.pet_id)) { lags.set(l.pet_id, { lag: lag, task: l.task_id, version: l.version }); }
      [moment(l.at_ms), l.name + (owner ? "" : " (" + l.owner + ")"), say(l.event), ended ? lag + " ms" : "", l.version].forEach(function (text, i) {
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
    var nth = ++asked, of = owner ? "?" + new URLSearchParams({ owner: owner }) : "";
    try {
      var got = await Promise.all([call("GET", "pets" + of), call("GET", "journal" + of)]);
      if (nth !== asked) { return; } // a newer one is on its way
      showLines(got[1].lines);
      reachWide();
      showPets(got[0]);
      if (failed) { notice(""); }
      failed = false;
    } catch (e) {
      failed = true;
      notice(e.code ? e.message : say("away"), true);
    }
  }

  function speak() {
    document.documentElement.lang = lang === "zh" ? "zh-Hans" : "en";
    byId("lang").textContent = lang === "zh" ? "English" : "中文";
    byId("lang").lang = lang === "zh" ? "en" : "zh-Hans";
    translate(document);
    cards.forEach(function (card) { translate(card.e); });
    byId("all").textContent = say("all", owner);
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
  byId("all").addEventListener("click", async function () {
    var did = await act("POST", "owners/" + encodeURIComponent(owner) + "/speedup");
    if (did) { notice(say("did", did.moved, owner)); }
  });
  byId("all").hidden = !owner;
  document.querySelector("#choose [name=owner]").value = owner;
  if (owner) { document.querySelector("#make [name=owner]").value = owner; }
  if (address) {
    byId("console").href = address;
    byId("console").hidden = false;
  }
  speak();
  refresh();
  setInterval(function () { if (!document.hidden) { refresh(); } }, 1000);
  draw();
})();
