// Light, dark, or what the system says. Runs before the first paint, so that nothing flashes.
(() => {
  const chosen = localStorage.getItem("sapwood-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
