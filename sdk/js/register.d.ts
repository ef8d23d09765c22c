export {} // it is imported for what it does
