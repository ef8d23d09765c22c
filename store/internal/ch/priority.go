package ch

// While a statement of a priority runs, those of a greater number wait. Reads that have none wait for nobody.
const WriterPriority, SearchPriority = 1, 2
