// Makes elements. Whatever is given as a child becomes a node or plain text, so no text can turn into markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes an HTML element; an attribute that begins with "on" is a listener. */
export const html = (name, attributes = {}, ...children) => make(document.createElement(name), attributes, children);

/** Makes an SVG element. */
export const svg = (name, attributes = {}, ...children) => make(document.createElementNS(SVG, name), attributes, children);

/** Returns the element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Writes a share between 0 and 1 as a percentage, with a digit more where it is small. */
export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  if (value > 99.9 && value < 100) return ">99.9%";
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)}%`;
}

/** Writes a number of things: "1 answer", "1,200 answers". */
export const counted = (number, one, several = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : several}`;
