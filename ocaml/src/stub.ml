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

let internal form =
  Printf.ksprintf
    (fun text ->
      !Errors.log ("sapwood: ! " ^ text);
      raise (Errors.Service (Fault.make Fault.failed text)))
    form

let inputs each call =
  try each.of_call call with Json.Wrong said -> Errors.fail_with Fault.bad_parameters "%s: %s" each.name said

let answer each = function
  | Ok outputs -> (
      try each.write outputs
      with Json.Wrong said -> internal "%S returned a wrong value: %s" each.name said)
  | Error error -> (
      match each.fault_of error with
      | fault -> raise (Errors.Service fault)
      | exception Json.Wrong said -> internal "%S raised an error with a wrong value: %s" each.name said)

let result each = function
  | Ok json -> (
      try Ok (each.read json)
      with Json.Wrong said ->
        raise (Errors.Bad_reply (Printf.sprintf "the reply of %S is not of its type: %s" each.name said)))
  | Error fault -> (
      match each.error_of fault with
      | Some error -> Error error
      | None -> raise (Errors.Service fault)
      | exception Json.Wrong said ->
          let text = Printf.sprintf "%S raised %s with a wrong value: %s" each.name fault.Fault.code said in
          raise (Errors.Service (Fault.make ~data:fault.Fault.data Fault.failed text)))
