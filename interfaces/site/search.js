"use strict";

const MOST = 30;
const search = document.getElementById("search");
const found = document.getElementById("found");

/** Entries that have every word, those whose name begins with the first word before the others. */
function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const place = ([name]) => (name.toLowerCase().startsWith(words[0]) ? 0 : 1);
  return ENTRIES.filter((entry) => {
    const said = entry.slice(0, 3).join(" ").toLowerCase();
    return words.every((word) => said.includes(word));
  }).sort((one, other) => place(one) - place(other));
}

function show() {
  const several = matches(search.value).slice(0, MOST);
  found.replaceChildren(
    ...several.map(([name, kind, about, page]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = page;
      link.textContent = name;
      const more = document.createElement("small");
      more.textContent = `${kind}, ${page.split("#")[0].replace(".html", "")}: ${about}`;
      item.append(link, more);
      return item;
    }),
  );
  found.hidden = !several.length;
}

search.addEventListener("input", show);
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search.value = "";
    show();
  } else if (event.key === "Enter") {
    found.querySelector("a")?.click();
  }
});
found.addEventListener("click", () => {
  found.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const program = button.nextElementSibling;
    try {
      await navigator.clipboard.writeText(program.textContent);
      button.textContent = "Copied";
    } catch {
      // A page that comes over plain http may not write to the clipboard: the keys of the reader may.
      getSelection().selectAllChildren(program);
      button.textContent = "Selected";
    }
  });
}
