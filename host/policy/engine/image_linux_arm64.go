package engine

// memfdCreate is the number of the system call.
const memfdCreate = 279
