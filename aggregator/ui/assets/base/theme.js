// Light, dark, or as the system says; remembered on this machine, for it says nothing about a study.

const THEME = "sfumato.theme";
const CHOICES = { system: "As the system", light: "Light", dark: "Dark" };

function read() {
  try {
    const kept = localStorage.getItem(THEME);
    return Object.hasOwn(CHOICES, kept) ? kept : "system";
  } catch {
    // A browser may forbid storage.
    return "system";
  }
}

function apply(choice) {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

function keep(choice) {
  apply(choice);
  try {
    if (choice === "system") localStorage.removeItem(THEME);
    else localStorage.setItem(THEME, choice);
  } catch {
    // The choice then holds until the tab is closed.
  }
}

/** Fill the menu of the page's header. */
export function offerThemes(menu) {
  for (const [value, text] of Object.entries(CHOICES)) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    menu.append(option);
  }
  menu.value = read();
  menu.addEventListener("change", () => keep(menu.value));
}

apply(read());
