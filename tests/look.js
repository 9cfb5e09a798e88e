// Looks at the page as it is shown now. Runs axe with the given options, where there are any; of colours
// it looks at one text of each kind that is not known yet. Gives what is wrong, the kinds.
async ({ options, contrast, known }) => {
    // On these depends how a text differs from what is behind it, and how much it has to: large ones less.
    const isLarge = ({ fontSize, fontWeight }) =>
        parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700);
    const own = ["color", "textShadow"];
    // On these, also of the text around it, depends whether a link can be told from that.
    const ofLinks = [...own, "fontSize", "fontWeight", "textDecorationLine", "borderBottom"];
    const layer = ["backgroundColor", "backgroundImage", "opacity", "filter", "mixBlendMode"];
    const nothing = ["rgba(0, 0, 0, 0)", "none", "1", "none", "normal"].join();
    const behind = new Map([[null, ""]]);

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
    for (const element of document.body.querySelectorAll("*")) {
        if (hasText(element) && element.checkVisibility()) {
            const link = element.localName === "a" ? `a ${values(element, ofLinks)} in ` : "";
            const around = link && values(element.parentElement, ofLinks);
            const text = `${values(element, own)}${isLarge(getComputedStyle(element)) ? " large" : ""}`;
            kinds.set(`${link}${around} ${text} on ${layers(element)}`, element);
        }
    }
    for (const kind of known) kinds.delete(kind);
    const violations = [];
    if (options) violations.push(...(await axe.run(options)).violations);
    if (contrast && kinds.size > 0) {
        violations.push(...(await axe.run({ include: [...kinds.values()] }, contrast)).violations);
    }
    return { violations, kinds: [...kinds.keys()] };
};
