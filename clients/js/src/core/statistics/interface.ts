/** The integers that each record adds to a sum, determined by public numbers alone. */
export interface Statistic {
  /** The number of integers in a sum. */
  readonly nCoordinates: number;

  /**
   * Add the integers of one record to `sums` in place.
   *
   * @param record d doubles: data units, or numbers of levels; NaN where a value is missing.
   * @param counter The stream's record counter at this record.
   * @returns Whether the record could be sketched; otherwise it added zero.
   */
  add(record: Float64Array, counter: number, sums: Float64Array): boolean;
}
