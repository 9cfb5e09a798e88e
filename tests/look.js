// Looks at the page as it is shown now, by axe with the given options, where there are any. With rules for
// the whole page, the other rules look at one element of each kind that is not known yet; those of colours
// look at one text of each such kind in any case. Gives what is wrong, the kinds and shapes, as numbers.
async ({ options, whole, contrast, known, knownShapes }) => {
    // On these depends how a text differs from what is behind it, and how much it has to: large ones less.
    const isLarge = ({ fontSize, fontWeight }) =>
        parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700);
    const own = ["color", "textShadow"];
    // On these, also of the text around it, depends whether a link can be told from that.
    const ofLinks = [...own, "fontSize", "fontWeight", "textDecorationLine", "borderBottom"];
    const layer = ["backgroundColor", "backgroundImage", "opacity", "filter", "mixBlendMode"];
    const nothing = ["rgba(0, 0, 0, 0)", "none", "1", "none", "normal"].join();
    const behind = new Map([[null, ""]]);

    // A number of 53 bits in the place of a long text.
    const numbers = new Map();
    const number = (text) => {
        if (!numbers.has(text)) {
            let [a, b] = [0xdeadbeef, 0x41c6ce57];
            for (let place = 0; place < text.length; place++) {
                a = Math.imul(a ^ text.charCodeAt(place), 2654435761);
                b = Math.imul(b ^ text.charCodeAt(place), 1597334677);
            }
            a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
            b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
            numbers.set(text, 4294967296 * (2097151 & b) + (a >>> 0));
        }
        return numbers.get(text);
    };

    const values = (element, names) => {
        const style = getComputedStyle(element);
        return names.map((name) => style[name]).join();
    };
    const layers = (element) => {
        if (!behind.has(element)) {
            const mine = values(element, layer);
            const above = layers(element.parentElement);
            behind.set(element, mine === nothing ? above : `${above}|${mine}`);
        }
        return behind.get(element);
    };
    const hasText = (element) =>
        element.matches("input, select, textarea") ||
        [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());

    const kinds = new Map();
    for (const element of contrast ? document.body.querySelectorAll("*") : []) {
        if (hasText(element) && element.checkVisibility()) {
            const link = element.localName === "a" ? `a ${values(element, ofLinks)} in ` : "";
            const around = link && values(element.parentElement, ofLinks);
            const text = `${values(element, own)}${isLarge(getComputedStyle(element)) ? " large" : ""}`;
            kinds.set(number(`${link}${around} ${text} on ${layers(element)}`), element);
        }
    }

    // What an element is: its name, classes and attributes, of those whose values are few also the values.
    const told = /^(role|type|lang|tabindex|scope|autocomplete|aria-(live|current|expanded|hidden|sort))$/;
    const names = new Map([[null, ""]]);
    const named = (element) => {
        if (!names.has(element)) {
            const valued = (name) => (told.test(name) ? `${name}=${element.getAttribute(name)}` : name);
            const all = element.getAttributeNames().sort().map(valued);
            names.set(element, `${element.localName}.${[...element.classList].sort().join(".")}[${all}]`);
        }
        return names.get(element);
    };
    // Whether others can find, name and reach it: on this depends what axe says, and it may be missing once.
    const references = ["aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "aria-details"];
    const state = (element) => {
        const ids = references.flatMap((name) => element.getAttribute(name)?.split(/\s+/) ?? []);
        const words = ["aria-label", "title", "alt", "value", "placeholder"];
        return [
            element.checkVisibility(),
            /\S/.test(element.textContent),
            words.map((name) => /\S/.test(element.getAttribute(name) ?? "")),
            [...(element.labels ?? [])].map((label) => /\S/.test(label.textContent)),
            ids.map((id) => /\S/.test(document.getElementById(id)?.textContent ?? "")),
            element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1,
            [...new Set([...element.children].map((child) => child.localName))].sort(),
        ].join();
    };
    const shapes = new Map();
    for (const element of whole ? document.querySelectorAll("*") : []) {
        const above = element.parentElement;
        const place = [element, above, above?.parentElement ?? null].map(named);
        shapes.set(number(`${state(element)} ${place.join(" in ")}`), element);
    }

    for (const kind of known) kinds.delete(kind);
    for (const shape of knownShapes) shapes.delete(shape);
    const violations = [];
    const run = async (context, by) => violations.push(...(await axe.run(context, by)).violations);
    if (whole) {
        await run(document, whole);
        if (shapes.size > 0) await run({ include: [...shapes.values()] }, options);
    } else if (options) await run(document, options);
    if (contrast && kinds.size > 0) await run({ include: [...kinds.values()] }, contrast);
    return { violations, kinds: [...kinds.keys()], shapes: [...shapes.keys()] };
};
