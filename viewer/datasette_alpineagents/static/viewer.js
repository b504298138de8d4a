/* Keys, folding and following. Every page works without it. */
(() => {
  "use strict";
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  /* Datasette closes every details element that a click is outside of, which is meant for its menus. */
  const main = document.querySelector("main.aa");
  main.addEventListener("click", (event) => {
    event.stopPropagation();
    all("header details[open]").forEach((menu) => { menu.open = false; });
  });
  document.addEventListener("click", (event) => {
    if (main.contains(event.target)) return;
    const opened = all(".aa details[open]");
    window.setTimeout(() => opened.forEach((item) => { item.open = true; }));
  }, true);

  const open = document.querySelector(".aa-open-all");
  if (open) {
    open.hidden = false;
    open.addEventListener("click", () => {
      const folded = all(".aa-turn:not([open])");
      (folded.length ? folded : all(".aa-turn")).forEach((turn) => { turn.open = folded.length > 0; });
      open.textContent = folded.length ? "Fold all" : "Open all";
    });
  }

  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    const turn = target.closest("details");
    if (turn) turn.open = true;
    target.scrollIntoView({ block: "center" });
  };
  window.addEventListener("hashchange", reveal);
  reveal();

  const go = (items, step) => {
    const marked = document.querySelector(".aa-marked, .aa-entry:target");
    const middle = window.innerHeight / 3;
    const isBehind = marked
      ? (item) => Boolean(marked.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING)
      : (item) => item.getBoundingClientRect().bottom > 0;
    const isBefore = marked
      ? (item) => Boolean(marked.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_PRECEDING) && !item.contains(marked)
      : (item) => item.getBoundingClientRect().bottom < middle;
    const next = step > 0 ? items.find(isBehind) : items.reverse().find(isBefore);
    if (!next) return;
    const turn = next.closest("details");
    if (turn) turn.open = true;
    if (next.id) history.replaceState(null, "", "#" + next.id);
    all(".aa-marked").forEach((item) => item.classList.remove("aa-marked"));
    next.classList.add("aa-marked");
    next.scrollIntoView({ block: "start" });
    window.scrollBy(0, -middle);
  };
  const keys = {
    j: () => go(all(".aa-entry"), 1),
    k: () => go(all(".aa-entry"), -1),
    "]": () => go(all(".aa-turn"), 1),
    "[": () => go(all(".aa-turn"), -1),
    e: () => go(all(".aa-entry").filter((entry) => entry.querySelector(".aa-bad, .aa-loud-red")), 1),
    o: () => { const marked = document.querySelector(".aa-marked, .aa-entry:target"); const turn = marked && marked.closest("details"); if (turn) turn.open = !turn.open; },
    "/": () => { const find = document.querySelector(".aa input[type=search]"); if (find) find.focus(); },
  };
  for (const link of all("[data-key]")) keys[link.dataset.key] = () => { location.href = link.href; };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  const slider = document.querySelector(".aa-steps input[type=range]");
  if (slider) {
    const shown = document.querySelector(".aa-steps output");
    slider.addEventListener("input", () => { shown.textContent = slider.value; });
    slider.addEventListener("change", () => { location.href = slider.dataset.base + slider.value; });
  }

  const follow = document.querySelector(".aa-follow");
  if (follow) {
    follow.hidden = false;
    let paused = false;
    let wait = 1000;
    const pause = follow.querySelector("button");
    pause.addEventListener("click", () => { paused = !paused; pause.textContent = paused ? "Go on" : "Pause"; });
    const poll = async () => {
      if (!paused && !document.hidden) {
        try {
          const url = follow.dataset.follow + "?after=" + follow.dataset.after;
          const news = await (await fetch(url, { headers: { Accept: "application/json" } })).json();
          const grown = news.entries > 0 || (news.newest !== undefined && news.newest > Number(follow.dataset.after));
          if (grown) { location.reload(); return; }
          wait = Math.min(wait * 1.3, 15000);
        } catch (error) { wait = Math.min(wait * 2, 60000); }
      }
      window.setTimeout(poll, wait);
    };
    window.setTimeout(poll, wait);
  }
})();
