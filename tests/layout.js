// What a person could not use or read at this width: controls that are cut off, words that are broken.
() => {
    // Of 320 pixels, a card leaves room for fewer letters.
    const LONGEST_WORD = innerWidth < 390 ? 16 : 24;
    const faults = [];
    const name = (element) =>
        `<${element.localName}${element.className ? ` class="${element.className}"` : ""}> ` +
        (element.textContent.trim() || element.name || "").slice(0, 60);

    // A control is in reach if every box around it shows that part of it, or scrolls there.
    const isCut = (control) => {
        let { left, right } = control.getBoundingClientRect();
        for (let box = control.parentElement; box !== document.body; box = box.parentElement) {
            const overflow = getComputedStyle(box).overflowX;
            if (overflow === "visible") continue;
            const edge = box.getBoundingClientRect();
            const leaves = left < edge.left - 1 || right > edge.right + 1;
            if (leaves && (overflow === "hidden" || overflow === "clip")) return true;
            ({ left, right } = edge);
        }
        return left < -1 || right > innerWidth + 1;
    };
    for (const control of document.querySelectorAll("a[href], button, input, select, textarea, summary")) {
        const seen = control.checkVisibility() && !control.matches(".skip, .by-return, [type=hidden]");
        if (seen && isCut(control)) faults.push(`out of reach: ${name(control)}`);
    }

    // Whoever speaks to the browser names a control by the words that are seen; its name begins with them.
    const plain = (text) => text.replace(/\s+/g, " ").trim();
    for (const control of document.querySelectorAll("a[href][aria-label], button[aria-label]")) {
        const seen = plain(control.innerText ?? "");
        const isNamed = !/\p{L}/u.test(seen) || plain(control.getAttribute("aria-label")).startsWith(seen);
        if (control.checkVisibility() && !isNamed) faults.push(`other name than words: ${name(control)}`);
    }

    // Controls of one bar that are beside each other have the same height and the same upper edge.
    for (const bar of document.querySelectorAll(".filters, .inline")) {
        const controls = bar.querySelectorAll("select, button, .button, input:not([type=checkbox], [type=radio])");
        const shown = [...controls].filter((one) => one.checkVisibility() && !one.matches("[type=hidden]"));
        const places = shown.map((one) => one.getBoundingClientRect());
        places.forEach((one, number) => {
            for (const other of places.slice(0, number)) {
                const isBeside = other.top < one.bottom && one.top < other.bottom;
                const apart = Math.abs(one.top - other.top) + Math.abs(one.height - other.height);
                if (isBeside && apart > 0.5) faults.push(`uneven: ${name(shown[number])}`);
            }
        });
    }

    // A plot may scroll in its box; a table in its card may not, where nothing shows that it does.
    for (const table of document.querySelectorAll("table")) {
        const box = table.closest(".scroller, .card");
        if (!table.checkVisibility() || !box || box.matches(".scroller")) continue;
        if (table.getBoundingClientRect().right > box.getBoundingClientRect().right + 1) {
            faults.push(`cut off: ${name(table)}`);
        }
    }

    // Nor may a text in a card that scrolls without showing it, or that does not scroll.
    const isBeyond = (element, place) => {
        for (let box = element; box; box = box.parentElement) {
            if (box.matches(".card")) return place.right > box.getBoundingClientRect().right + 1;
            if (getComputedStyle(box).overflowX !== "visible") return false;
        }
        return false;
    };

    // Words may be broken at hyphens and other signs only; addresses, codes and other long ones anywhere.
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const element = text.parentElement;
        if (!text.data.trim() || !element.checkVisibility() || element.closest("svg, script")) continue;
        if (element.closest("thead")?.clientWidth === 1) continue; // for screen readers only
        const range = document.createRange();
        range.selectNodeContents(text);
        const place = (element.closest(".state") ?? range).getBoundingClientRect();
        if (isBeyond(element, place)) faults.push(`beyond its card: ${name(element)}`);
        if (element.closest(".mono, code, pre")) continue;
        if (range.getClientRects().length < 2) continue;
        for (const token of text.data.matchAll(/\S+/g)) {
            if (token[0].length > LONGEST_WORD) continue;
            for (const word of token[0].matchAll(/[\p{L}\p{N}]{2,}/gu)) {
                range.setStart(text, token.index + word.index);
                range.setEnd(text, token.index + word.index + word[0].length);
                const lines = new Set([...range.getClientRects()].map((place) => Math.round(place.top)));
                if (lines.size > 1) faults.push(`broken: ${word[0]} in ${name(element)}`);
            }
        }
    }
    if (document.documentElement.scrollWidth > innerWidth) faults.push(`page: ${document.documentElement.scrollWidth}`);
    return [...new Set(faults)];
}
