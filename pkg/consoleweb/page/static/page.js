"use strict";
(function () {
  // The server shows times in the browser's zone, which only the browser knows.
  var zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  var known = document.cookie.split("; ").find(function (c) { return c.startsWith("duetime_zone="); });
  if (!known || decodeURIComponent(known.slice(13)) !== zone) {
    document.cookie = "duetime_zone=" + encodeURIComponent(zone) + "; max-age=31536000; samesite=lax";
    if (document.cookie.includes("duetime_zone=" + encodeURIComponent(zone)) && zone !== "UTC") { location.reload(); }
  }

  var dialog = document.getElementById("dialog"), body = document.getElementById("dialog-body");
  var keys = document.getElementById("keys");

  // ask shows a question in the dialog; without scripts it is a page of its own.
  function ask(address) { return htmx.ajax("GET", address, { target: "#dialog-body", swap: "innerHTML" }); }
  window.duetimeAsk = ask;

  if (navigator.clipboard) { document.documentElement.classList.add("copies"); } // only a page that came safely may copy
  document.addEventListener("click", function (e) {
    var link = e.target.closest("a[data-change]");
    if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) {
      e.preventDefault();
      ask(link.getAttribute("href"));
    } else if (e.target.dataset.copy !== undefined) {
      navigator.clipboard.writeText(e.target.dataset.copy || e.target.parentElement.nextElementSibling.textContent).then(function () {
        e.target.textContent = e.target.dataset.done;
      });
    } else if (e.target.closest("#show-keys")) {
      keys.showModal();
    } else if (e.target.closest("#dialog-body [data-no]")) {
      e.preventDefault(); // it leads back to the page behind the dialog
      dialog.close();
    }
  });
  document.addEventListener("submit", function (e) {
    var form = e.target.closest("form[data-change], form.bulk");
    if (form) {
      e.preventDefault();
      ask("change?" + new URLSearchParams(new FormData(form)).toString());
    }
  });
  // Not before the settling: until then its form is not htmx's. What was closed before it stays closed.
  document.addEventListener("htmx:afterSettle", function (e) {
    if (e.detail.target !== body || !body.firstChild) { return; }
    if (!dialog.open) { dialog.showModal(); }
    // Enter answers the question, but does not do what can't be taken back: that takes a step to its button.
    var field = "form input:not([type=hidden]), form button";
    var first = body.querySelector(body.querySelector("form .grave") ? "[data-no]" : body.querySelector("form") ? field : "a");
    if (first) { first.focus(); }
    body.querySelectorAll(".question td a").forEach(function (a) { a.target = "_blank"; }); // the question stays
  });
  dialog.addEventListener("close", function () {
    var done = body.querySelector("[data-outcome=done]");
    body.replaceChildren();
    if (done) { location.reload(); } else { document.dispatchEvent(new Event("duetime:unchanged")); }
  });

  // What can be said next is offered behind what was typed; without scripts, behind what the page was asked for.
  var field = document.getElementById("query");
  if (field) {
    field.addEventListener("input", function () {
      var typed = field.value.slice(0, field.value.lastIndexOf(" ") + 1);
      field.list.querySelectorAll("option").forEach(function (o) { o.value = typed + o.dataset.clause; });
    });
  }

  // Moments relative to now are said anew each second, as the server says them (times.go).
  var words = JSON.parse(document.body.dataset.words), clock = Number(document.body.dataset.now) - Date.now();
  function now() { return Date.now() + clock; }
  function short(ms) {
    var i = words.units.findIndex(function (u) { return ms >= u.ms; }), u = words.units[i], next = words.units[i + 1];
    var n = Math.floor(ms / u.ms), more = next && n < 10 ? Math.floor(ms % u.ms / next.ms) : 0;
    return n + " " + u.name + (more ? " " + more + " " + next.name : "");
  }
  function relative(at) {
    var ms = at - now();
    if (Math.abs(ms) < 1000) { return words.now; }
    return (ms < 0 ? words.ago : words.in).replace("%s", short(Math.abs(ms)));
  }
  function tick() {
    var selection = getSelection();
    document.querySelectorAll("[data-at]:not([data-at=''])").forEach(function (e) {
      var text = (e.dataset.text || "%s").replace("%s", relative(Number(e.dataset.at)));
      var free = selection.isCollapsed || !selection.containsNode(e, true); // else the selection would be lost
      if (free && e.textContent !== text) { e.textContent = text; }
    });
    document.querySelectorAll("[data-walk]").forEach(walk);
    var figures = live && live.hasAttribute("hx-get") && live.querySelector("[data-read]");
    if (figures && now() - figures.dataset.at > oldAfter) { live.classList.add("old"); } // they wait for the reader
  }
  // The line of now walks on from where its figures put it.
  var still = matchMedia("(prefers-reduced-motion: reduce)");
  function walk(line) {
    var part = Math.max(0, Math.min(1, (now() - line.dataset.walk) / line.dataset.length));
    line.style.transform = still.matches ? "" : "translateX(" + part * 100 + "%)";
  }
  setInterval(tick, 1000);

  var oldAfter = 45000; // ms; views are read each 30 s or sooner
  var live = document.querySelector("#live, #found"), unanswered = document.getElementById("unanswered"), read = now();
  function isLive(e) { return Boolean(live) && e.detail.target === live; }

  // The part that the address names may come, or move, with the first figures.
  var named = document.querySelector("[data-reading]") ? location.hash.slice(1) : "";
  document.addEventListener("htmx:afterSettle", function (e) {
    var part = named && isLive(e) && !live.querySelector("[data-reading]") && document.getElementById(named);
    if (part) {
      named = "";
      part.scrollIntoView();
    }
  });

  // Views that nobody looks at ask for nothing, and neither do those behind a question.
  document.addEventListener("htmx:beforeRequest", function (e) {
    if (isLive(e) && (document.hidden || dialog.open)) { e.preventDefault(); }
  });
  document.addEventListener("visibilitychange", function () {
    if (live && live.hasAttribute("hx-get") && !document.hidden) { htmx.ajax("GET", live.getAttribute("hx-get"), "#live"); }
  });
  // A console that hangs answers no request: the server itself ends a view sooner.
  document.addEventListener("htmx:configRequest", function (e) {
    if (isLive(e)) { e.detail.timeout = 12000; }
  });
  // A live view that can't be read keeps its last figures, and says why, and how old they are.
  function keep(why) {
    var said = unanswered.firstElementChild, age = unanswered.lastElementChild, figures = live.querySelector("[data-read]");
    if (said.textContent !== why) { said.textContent = why; } // or a screen reader would say it each time
    age.dataset.at = figures ? figures.dataset.at : read;
    unanswered.hidden = false;
    live.classList.add("old");
    tick();
  }
  function answered() {
    read = now();
    unanswered.hidden = true;
    unanswered.firstElementChild.textContent = "";
    live.classList.remove("old");
  }
  // New figures leave the reader's place: the focus, and how far tables are scrolled. What is selected, typed, dragged, opened or
  // asked about is not replaced.
  var place = null;
  function focusable() { return Array.from(live.querySelectorAll("a[href], button, input, select, .wide")); }
  function isUsed() {
    var selected = !getSelection().isCollapsed && live.contains(getSelection().anchorNode);
    return selected || dialog.open || live.querySelector(".moving, details[open]") ||
      Array.from(live.querySelectorAll("input:not([type=hidden])")).some(function (e) { return e.value !== e.defaultValue || e.checked !== e.defaultChecked; });
  }
  function keepPlace() {
    var focused = live.contains(document.activeElement) ? document.activeElement : null;
    place = {
      nth: focused ? focusable().indexOf(focused) : -1, href: focused && focused.getAttribute("href"),
      scrolled: Array.from(live.querySelectorAll(".wide"), function (box) { return box.scrollLeft; }),
    };
  }
  function takePlace() {
    live.querySelectorAll(".wide").forEach(function (box, i) { box.scrollLeft = place.scrolled[i] || 0; });
    if (place.nth >= 0) {
      var all = focusable(), same = all[place.nth];
      if (place.href && (!same || same.getAttribute("href") !== place.href)) {
        same = all.find(function (e) { return e.getAttribute("href") === place.href; }) || same;
      }
      if (same) { same.focus({ preventScroll: true }); }
    }
    place = null;
  }
  document.addEventListener("htmx:beforeSwap", function (e) {
    if (!isLive(e)) {
      e.detail.shouldSwap = e.detail.shouldSwap && (e.detail.target === body || e.detail.xhr.status === 200); // no count is no page
      return;
    }
    if (e.detail.xhr.status === 200) {
      answered();
      e.detail.shouldSwap = !isUsed();
      return keepPlace();
    }
    e.detail.shouldSwap = false;
    var answer = new DOMParser().parseFromString(e.detail.xhr.responseText, "text/html");
    var why = answer.querySelector("main .mistake[role=alert]");
    keep(why ? why.textContent : unanswered.dataset.text);
  });
  ["htmx:sendError", "htmx:timeout"].forEach(function (name) {
    document.addEventListener(name, function (e) {
      if (isLive(e)) { keep(unanswered.dataset.text); }
    });
  });

  // A table that is wider than the page can be scrolled by the keyboard.
  function reachWide() {
    document.querySelectorAll(".wide").forEach(function (box) {
      if (box.scrollWidth > box.clientWidth) { box.tabIndex = 0; } else { box.removeAttribute("tabindex"); }
    });
  }
  reachWide();
  window.addEventListener("resize", reachWide);
  document.addEventListener("htmx:afterSettle", reachWide);
  document.addEventListener("htmx:afterSwap", function (e) {
    if (!isLive(e) || !place) { return; }
    reachWide(); // else a table can't have the focus
    takePlace();
  });

  var afterG = 0;
  document.addEventListener("keydown", function (e) {
    if (e.ctrlKey || e.metaKey || e.altKey || dialog.open || e.target.closest("input:not([type=checkbox]), select, textarea")) { return; }
    if (e.key === "/") {
      e.preventDefault();
      document.getElementById("jump").focus();
    } else if (e.key === "?") {
      if (!keys.open) { keys.showModal(); }
    } else if (e.key === "g") {
      afterG = Date.now();
    } else if (Date.now() - afterG < 1500) {
      var link = document.querySelector("nav a[data-key='" + CSS.escape(e.key) + "']");
      afterG = 0;
      if (link) { location.assign(link.href); }
    } else {
      row(e.key);
    }
  });
  // The focus goes from row to row, and chooses it, or all from the row that was chosen before.
  var picked = null;
  function row(key) {
    var links = Array.from(document.querySelectorAll("main .rows a.id")), rows = links.map(function (a) { return a.closest("tr"); });
    var at = rows.findIndex(function (r) { return r.contains(document.activeElement); }), next = links[key === "j" ? at + 1 : at - 1];
    if ((key === "j" || key === "k") && next) { next.focus(); }
    var boxes = rows.map(function (r) { return r.querySelector(".pick input"); }), box = boxes[at], from = boxes.indexOf(picked);
    if (!box || key !== "x" && key !== "X") { return; }
    box.checked = key === "X" || !box.checked;
    if (key === "X" && from >= 0) {
      boxes.slice(Math.min(from, at), Math.max(from, at)).forEach(function (b) { b.checked = true; });
    }
    picked = box;
  }
})();
