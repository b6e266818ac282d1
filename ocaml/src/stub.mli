(** A function of an interface, with its types: inputs, outputs, declared errors. Generated code makes them. *)

type ('i, 'o, 'e) t = {
  name : string;
  about : string;
  call_of : 'i -> Call.t;
  of_call : Call.t -> 'i;
  write : 'o -> Json.t;
  read : Json.t -> 'o;
  fault_of : 'e -> Fault.t;
  error_of : Fault.t -> 'e option;
}

val inputs : ('i, 'o, 'e) t -> Call.t -> 'i
(** The server's side. Raises {!Errors.Service} with [BAD_PARAMETERS]. *)

val answer : ('i, 'o, 'e) t -> ('o, 'e) result -> Json.t
(** The server's side. Raises {!Errors.Service} with the declared error; [FAILED] for a wrong value. *)

val result : ('i, 'o, 'e) t -> (Json.t, Fault.t) result -> ('o, 'e) result
(** The caller's side. Raises {!Errors.Bad_reply}, and {!Errors.Service} for an error that is not declared. *)
