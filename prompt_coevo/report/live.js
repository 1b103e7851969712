// The page of a run that goes on: look for news, and put them in without closing what is open.
let known = document.querySelector("main").dataset.state;
async function refresh() {
  try {
    const state = await (await fetch("state", {cache: "no-store"})).text();
    if (state !== known) {
      const text = await (await fetch("./", {cache: "no-store"})).text();
      const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
      const old = document.querySelector("main");
      const open = new Set([...old.querySelectorAll("details[open][id]")].map((one) => one.id));
      for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
      const focused = document.activeElement && document.activeElement.id;
      const place = scrollY;
      old.replaceWith(fresh);
      scrollTo(0, place);
      if (focused && document.getElementById(focused)) document.getElementById(focused).focus({preventScroll: true});
      known = fresh.dataset.state;
    }
    document.body.dataset.gone = "";
  } catch { document.body.dataset.gone = "yes"; }
  setTimeout(refresh, 2000);
}
setTimeout(refresh, 2000);
