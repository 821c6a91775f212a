export interface Lease { readonly key: string }
