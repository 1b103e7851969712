"use strict";
// A link into something that is folded unfolds it, in browsers that do not do so themselves.
function unfold() {
  let id;
  try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
  const target = id ? document.getElementById(id) : null;
  if (!target) return;
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) unfold();
});
unfold();
