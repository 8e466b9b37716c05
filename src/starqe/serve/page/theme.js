// Light or dark: the system's setting, until the user chooses. Runs before the page is drawn, so that nothing flashes.
(() => {
  const KEY = "starqe-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const now = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch {
    // The browser allows no storage: the system decides.
  }
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => button.setAttribute("aria-pressed", String(now() === "dark"));
    button.addEventListener("click", () => {
      root.dataset.theme = now() === "dark" ? "light" : "dark";
      show();
      try {
        localStorage.setItem(KEY, root.dataset.theme);
      } catch {
        // Then it lasts only until the page is closed.
      }
    });
    system.addEventListener("change", show);
    show();
  });
})();
