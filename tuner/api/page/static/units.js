/* Rates as the server writes them (streaming/shared/units.py): three digits, or more before the point. */
"use strict";

const units = (() => {
  const FACTORS = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

  // Python rounds a tie to the even digit, toFixed away from zero. A number that is a tie in binary, too, has one bit after the digits.
  function fixed(value, digits) {
    const text = value.toFixed(digits);
    const isTie = Math.abs((value * 2 ** (digits + 1)) % 2) === 1;
    return isTie && Number(text.at(-1)) % 2 ? (value * (1 - Number.EPSILON)).toFixed(digits) : text;
  }

  function threeDigits(value) {
    const size = Math.abs(value);
    return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  }

  function rateText(bytesPerS) {
    const found = FACTORS.find(([factor]) => Math.abs(bytesPerS) >= 0.9995 * factor);
    return found ? `${threeDigits(bytesPerS / found[0])} ${found[1]}/s` : `${fixed(bytesPerS, 0)} B/s`;
  }

  return { rateText };
})();
