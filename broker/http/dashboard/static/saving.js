// Saves a file at the browser.

import { h } from "./dom.js";

export function download(name, data) {
  const link = h("a", { download: name, href: URL.createObjectURL(new Blob([data])) });
  link.click();
  URL.revokeObjectURL(link.href);
}
