"use strict";

// What pages gain with a script: live rows, times, buttons that copy, menus that close.
// Every page works without it.
(() => {
  const parseRow = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  const focusables = (row) => [...row.querySelectorAll("a, button, input, select")];
  const purpose = (control) => control.getAttribute("formaction") ?? control.getAttribute("href") ?? control.name;

  // Changed cells are exchanged one by one. The keyboard focus stays on the same action; without that, it moves to
  // the row's link, never to another action, which Enter would then perform.
  const refresh = (row, fresh) => {
    const focused = focusables(row).find((control) => control === document.activeElement);
    const cells = [...fresh.cells];
    if (row.cells.length !== cells.length) {
      row.replaceChildren(...cells);
    }
    cells.forEach((cell, place) => {
      const old = row.cells[place];
      if (old !== cell && old.outerHTML !== cell.outerHTML) {
        old.replaceWith(cell);
      }
    });
    row.className = fresh.className;
    if (focused && !row.contains(document.activeElement)) {
      const controls = focusables(row);
      const same = controls.find((control) => purpose(control) === purpose(focused));
      (same ?? controls[0])?.focus({ preventScroll: true });
    }
  };

  // A row that goes hands its focus to its neighbour, or to the page.
  const remove = (row) => {
    const neighbour = row.nextElementSibling ?? row.previousElementSibling;
    const hadFocus = row.contains(document.activeElement);
    row.remove();
    if (hadFocus) {
      const target = (neighbour && focusables(neighbour)[0]) ?? document.getElementById("main");
      target.focus({ preventScroll: true });
    }
  };

  const arrange = (body, order) => {
    for (const row of [...body.rows]) {
      if (!order.includes(row.id)) {
        remove(row);
      }
    }
    const focus = document.activeElement;
    order.forEach((id, place) => {
      const row = document.getElementById(id);
      if (row && body.rows[place] !== row) {
        body.insertBefore(row, body.rows[place] ?? null);
      }
    });
    if (focus !== document.activeElement) {
      focus.focus({ preventScroll: true });
    }
  };

  const apply = (body, news) => {
    for (const [id, html] of Object.entries(news.rows)) {
      const fresh = parseRow(html);
      const row = document.getElementById(id);
      if (row) {
        refresh(row, fresh);
      } else {
        body.append(fresh);
      }
    }
    if (news.order) {
      arrange(body, news.order);
      // The page of a job that has ended leads to its result, once that is written.
      if (news.order.length === 0 && body.closest("[data-live-end]")) {
        setTimeout(() => window.location.reload(), 1000);
      }
    }
    // Rows are rendered when they change, so the first ones of a page may say how long ago it was then.
    tellTimes();
    countOn();
  };

  const follow = (bodies) => {
    const status = document.querySelector("[data-live-status]");
    const say = (word) => {
      status.dataset.liveStatus = word;
      status.querySelector("span").textContent = status.dataset[word];
      status.hidden = false;
    };
    const topics = bodies.map((body) => body.dataset.live).join(",");
    // The server sends an event at least every 15 seconds. Without any for three times as long, the connection is
    // lost, even if the browser has not noticed.
    const SILENCE = 45_000;
    let source = null;
    let silence = null;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(reconnect, SILENCE);
    };
    // A hidden page follows nothing: browsers have six connections to a host without HTTP/2, for all pages.
    const listen = () => {
      source?.close();
      clearTimeout(silence);
      if (document.visibilityState === "hidden") {
        return;
      }
      const opened = new EventSource(`/events?topics=${encodeURIComponent(topics)}`);
      for (const body of bodies) {
        opened.addEventListener(body.dataset.live, (event) => {
          heard();
          apply(body, JSON.parse(event.data));
        });
      }
      opened.addEventListener("alive", heard);
      opened.onopen = () => {
        heard();
        say("on");
      };
      opened.onerror = () => {
        if (opened.readyState === EventSource.CLOSED) {
          clearTimeout(silence);
          say("ended");
        } else {
          say("waiting");
        }
      };
      source = opened;
      heard();
    };
    const reconnect = () => {
      say("waiting");
      listen();
    };
    listen();
    document.addEventListener("visibilitychange", listen);
    window.addEventListener("offline", reconnect);
    window.addEventListener("online", reconnect);
    window.addEventListener("pagehide", () => source?.close());
    window.addEventListener("pageshow", (event) => event.persisted && window.location.reload());
  };

  // Buttons that copy are shown where copying is possible.
  const offerCopies = () => {
    for (const button of document.querySelectorAll("button[data-copy]")) {
      button.hidden = !navigator.clipboard;
      const say = (word) => { button.nextElementSibling.textContent = button.dataset[word]; };
      button.addEventListener("click", () => {
        const text = document.getElementById(button.dataset.copy).textContent;
        navigator.clipboard.writeText(text).then(() => say("copied"), () => say("failed"));
      });
    }
  };

  // "/" moves the focus to the search, unless something is being typed.
  const offerSearchKey = () => {
    const search = document.querySelector(".search [aria-keyshortcuts]");
    const typing = "input:not([type=checkbox], [type=radio]), textarea, select";
    document.addEventListener("keydown", (event) => {
      const { key, altKey, ctrlKey, metaKey, target } = event;
      if (search && key === "/" && !(altKey || ctrlKey || metaKey) && !target.matches?.(typing)) {
        event.preventDefault();
        search.focus();
      }
    });
  };

  // A box that ticks all rows of its form, and that shows whether all are ticked.
  const offerSelectingAll = () => {
    for (const all of document.querySelectorAll("[data-select-all]")) {
      const boxes = [...all.form.querySelectorAll("tbody [type=checkbox]")];
      const show = () => { all.checked = boxes.every((box) => box.checked); };
      all.closest("label").hidden = false;
      all.form.addEventListener("change", ({ target }) => {
        if (target === all) {
          boxes.forEach((box) => { box.checked = all.checked; });
        } else {
          show();
        }
      });
      addEventListener("pageshow", show); // Back restores the ticks of rows, but not this box's.
    }
  };

  // A menu closes by Escape, and as soon as the focus or a click is elsewhere. The explanation of a field closes
  // only after a click: if it closed when the mouse button is pressed, the page would move under the pointer, and
  // there would be no click.
  const tendMenus = () => {
    for (const menu of document.querySelectorAll("details.menu, details.what")) {
      const leave = (to) => menu.contains(to) || menu.removeAttribute("open");
      menu.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && menu.open) {
          menu.open = false;
          menu.querySelector("summary").focus();
        }
      });
      if (menu.matches(".menu")) {
        menu.addEventListener("focusout", (event) => event.relatedTarget && leave(event.relatedTarget));
      }
      document.addEventListener("click", (event) => leave(event.target));
    }
  };

  // A second click does not send a form again while its answer is on the way; after ten seconds, it does.
  const sendOnce = () => {
    const sent = new Map();
    document.addEventListener("submit", (event) => {
      const { target: form, submitter, timeStamp } = event;
      if (event.defaultPrevented || form.getAttribute("method") !== "post") {
        return;
      }
      // The rows of a table may share a form, and each has buttons of its own.
      const key = submitter?.hasAttribute("formaction") ? submitter : form;
      if (timeStamp - sent.get(key) < 10_000) {
        event.preventDefault();
      } else {
        sent.set(key, timeStamp);
      }
    });
    window.addEventListener("pageshow", () => sent.clear());
  };

  // Before a page with typed text is left, the browser asks; what a password manager filled in is no loss.
  const askBeforeLeaving = () => {
    let unsent = null;
    document.addEventListener("input", ({ target }) => {
      const { form } = target;
      const typed = target.matches("textarea, input:not([type=checkbox], [type=radio])");
      if (typed && form?.getAttribute("method") === "post" && !form.querySelector("[type=password]")) {
        unsent = form;
      }
    });
    document.addEventListener("submit", ({ target }) => {
      if (target === unsent) {
        unsent = null;
      }
    });
    window.addEventListener("beforeunload", (event) => unsent && event.preventDefault());
  };

  // Saving stores what the form says now: after a change, the previewed plan may be another one.
  const dropOldPreview = () => {
    const plan = document.querySelector(".plan[data-changed]");
    plan?.closest("form").addEventListener("input", ({ target }) => {
      if (!target.matches("[name=repository_name], [name=base_dir]")) {
        const hint = document.createElement("p");
        hint.textContent = plan.dataset.changed;
        plan.replaceChildren(plan.firstElementChild, hint);
      }
    });
  };

  // The browser's clock may be wrong: only what it counts since the page was rendered is used.
  const ahead = Date.now() - new Date(document.body.dataset.now);
  const serverTime = () => Date.now() - ahead;

  // Relative times ("3 min ago") stay right while a page is open; the tooltip has the exact one.
  const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60]];
  const tellTimes = () => {
    const { lang } = document.documentElement;
    const words = new Intl.RelativeTimeFormat(lang === "en" ? "en-GB" : lang, { style: "short" });
    for (const time of document.querySelectorAll("time[data-relative]")) {
      const seconds = (new Date(time.dateTime) - serverTime()) / 1000;
      const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
      if (unit && Math.abs(seconds) < 7 * 86_400) {
        time.textContent = words.format(Math.round(seconds / unit[1]), unit[0]);
      }
    }
  };

  // How long there has been no answer, in the words of `duration` in formats.py.
  const countOn = () => {
    for (const time of document.querySelectorAll("time[data-elapsed]")) {
      const seconds = Math.max(0, Math.round((serverTime() - new Date(time.dateTime)) / 1000));
      const rest = String(seconds % 60).padStart(2, "0");
      if (seconds < 3600) {
        time.textContent = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)}:${rest} min`;
      }
    }
  };

  // Pages show times in the browser's zone, which the server learns from this cookie.
  const tellZone = () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    document.cookie = `zatva_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  };

  tellZone();
  setInterval(tellTimes, 30_000);
  setInterval(countOn, 1000);
  offerCopies();
  offerSearchKey();
  offerSelectingAll();
  tendMenus();
  sendOnce();
  askBeforeLeaving();
  dropOldPreview();
  function isNew(result) {
    // Pages that reload themselves, F5 and Back show a notice again.
    const [navigation] = performance.getEntriesByType("navigation");
    return result.matches("[role=alert]") || navigation?.type === "navigate";
  }

  // Screen readers say a result that is there from the start only if it takes the focus; an error goes first.
  const results = ["[role=alert][tabindex]", ".plan[tabindex], .notice[tabindex]"];
  const result = results.map((one) => document.querySelector(one)).find((one) => one);
  if (result && isNew(result)) {
    result.focus();
  }
  const bodies = [...document.querySelectorAll("tbody[data-live]")];
  if (bodies.length > 0) {
    follow(bodies);
  }
})();
