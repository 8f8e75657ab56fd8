"use strict";
(() => {
  const input = document.getElementById("search");
  const list = document.getElementById("results");
  const lower = window.searchIndex.map((r) => ({ r, page: r.t.toLowerCase(), heading: (r.h || r.t).toLowerCase(), text: r.x.toLowerCase() }));

  // score is 0 unless every word is found. A word in a heading counts more than one in the title of the
  // page, and that more than one in the text. Decisions, which explain the past, come after the rest.
  const score = (entry, words) => {
    let total = 0;
    for (const word of words) {
      if (entry.heading.includes(word)) total += 10;
      else if (entry.page.includes(word)) total += 4;
      else if (entry.text.includes(word)) total += 1;
      else return 0;
    }
    return entry.r.u.startsWith("adr/") ? total / 10 : total;
  };

  // excerpt begins with a whole word.
  const excerpt = (entry, word) => {
    const near = Math.max(0, entry.text.indexOf(word) - 40);
    const at = near > 0 ? entry.text.indexOf(" ", near) + 1 : 0;
    return (at > 0 ? "… " : "") + entry.r.x.slice(at, at + 140);
  };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const found = lower.map((entry) => ({ entry, points: score(entry, words) })).filter((f) => f.points > 0)
      .sort((a, b) => b.points - a.points).slice(0, 20);
    for (const { entry } of found) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = window.siteRoot + entry.r.u;
      link.textContent = entry.r.h ? `${entry.r.t} › ${entry.r.h}` : entry.r.t;
      const text = document.createElement("small");
      text.textContent = excerpt(entry, words[0]);
      link.append(text);
      item.append(link);
      list.append(item);
    }
    if (found.length === 0) {
      const item = document.createElement("li");
      item.className = "none";
      item.textContent = "Nothing found";
      list.append(item);
    }
  };

  input.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape") { list.hidden = true; input.blur(); }
    if (event.key === "Enter" && document.activeElement === input) list.querySelector("a")?.click();
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });
})();
