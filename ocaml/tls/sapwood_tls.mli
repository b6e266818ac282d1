(** TLS to a node whose place says https. Nobody is believed without a certificate for the node's name. *)

val context : Sapwood.Place.t -> Ssl.context option
(** None: it says http. Raises what [Ssl] raises for files that are none. *)

val expect : Ssl.socket -> string -> unit
(** Before the handshake: the certificate is to be one for this host. *)
