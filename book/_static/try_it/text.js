// Words of a text, and a text among filler, as the library has them: torchtext's basic_english
// (whenpool.corpora.tokens) and whenpool.settings.compose. A Web Worker is given this function as text,
// since a browser that reads pages from disk gives it no files; so it uses nothing from outside.
"use strict";
globalThis.whenpoolTryIt ??= {};

whenpoolTryIt.text = function () {
  const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/; // Python's

  // A text -> its lower-case words and marks.
  function tokenize(text) {
    return text
      .toLowerCase()
      .replaceAll('"', "")
      .replaceAll("<br />", " ")
      .replace(/[;:]/g, " ")
      .replace(/['.,()!?]/g, " $& ")
      .split(SPACE)
      .filter(Boolean);
  }

  // How many words of filler a text of so many words gets on its left and on its right.
  function fillerLengths(words, setting, share) {
    const total = roundHalfEven((words * share) / (1 - share));
    const left = { left: 0, mid: Math.floor(total / 2), right: total }[setting];
    return [left, total - left];
  }

  // As Python rounds.
  function roundHalfEven(value) {
    const floor = Math.floor(value);
    return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
  }

  // The words of a text among whole sentences, the last of which is cut on each side; the sentences begin
  // anew when all have been used.
  function compose(words, sentences, setting, share) {
    let next = 0;
    const take = (count) => {
      const taken = [];
      while (taken.length < count) {
        taken.push(...sentences[next++ % sentences.length].slice(0, count - taken.length));
      }
      return taken;
    };
    const [left, right] = fillerLengths(words.length, setting, share);
    const before = take(left);
    return { words: [...before, ...words, ...take(right)], start: left };
  }

  return { tokenize, compose };
};
