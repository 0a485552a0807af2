// Writes numbers, times and names for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** A count, as 12,345; a dash if it is unknown. */
export const count = (value: number | null | undefined): string => (value == null ? '–' : whole.format(value));

function scaled(value: number, step: number, units: string[]): string {
  let index = 0;
  while (value >= step && index < units.length - 1) {
    value /= step;
    index += 1;
  }
  const digits = value < 10 && index > 0 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[index]}`;
}

/** Bytes, as 1.5 MiB. */
export const bytes = (value: number | null | undefined): string =>
  value == null ? '–' : scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);

/** Bits per second, as 12 Mbit/s. */
export const rate = (value: number | null | undefined): string =>
  value == null ? '–' : scaled(value, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);

/** A duration in seconds, as 3 min. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return '–';
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

const clock = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const clockOnly = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

/** A time in nanoseconds since 1970, with its date. */
export const time = (nanoseconds: number): string => clock.format(new Date(nanoseconds / 1e6));

/** A time in nanoseconds since 1970, without its date. */
export const timeOfDay = (nanoseconds: number): string => clockOnly.format(new Date(nanoseconds / 1e6));

/** The part of a datapath id that differs between switches: without leading zeros, or the last two bytes at least. */
export function shortDpid(dpid: string): string {
  const digits = dpid.replaceAll(':', '').replace(/^0+/, '');
  return digits.length > 8 ? `…${digits.slice(-6)}` : digits || '0';
}

/** A value of a limit in its unit; the names are those of the configuration. */
export function limitValue(limit: string, value: number | null): string {
  if (value == null) return '–';
  if (limit.endsWith('bytes') || limit === 'memory') return bytes(value);
  if (limit === 'log-bytes-per-second') return `${bytes(value)}/s`;
  // Processor time is counted in thousandths of a processor.
  if (limit === 'cpu') return `${(value / 1000).toFixed(2)} CPU`;
  return whole.format(value);
}

/** The name of a limit, as words. */
export const limitName = (limit: string): string => limit.replaceAll('-', ' ').replace('cpu', 'processor').replace(' per second', '/s');

/** The cause of an incident, as a phrase. */
export function cause(it: { kind: string; signal?: number; code?: number; limit?: string; summary?: string; switch?: string; flows?: number; address?: string; message?: string; file?: string }): string {
  switch (it.kind) {
    case 'signal':
      return `signal ${it.signal}`;
    case 'exit':
      return `exit with code ${it.code}`;
    case 'limit':
      return `limit of ${limitName(it.limit ?? '')} reached`;
    case 'reported':
      return it.summary ?? 'reported';
    case 'missing-flows':
      return `${it.flows} flows missing at ${it.switch}`;
    case 'other-controller':
      return `another controller commands switch ${it.switch}`;
    case 'failed-message':
      return `switch ${it.switch} does not carry out ${it.message}`;
    case 'refused-switch':
      return `refused ${it.address} as switch ${it.switch}`;
    case 'damaged-file':
      return `${it.file} is not the released file`;
    default:
      return it.kind.replaceAll('-', ' ');
  }
}
