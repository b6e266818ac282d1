exception Connect_failed of string
exception Refused of { code : string; text : string; help : string }
exception Closed
exception Service of Fault.t
exception Call_timeout of string
exception Reply_lost of string
exception Bad_reply of string
exception Channel_failed of string

let said = function
  | Connect_failed text | Call_timeout text | Reply_lost text | Bad_reply text | Channel_failed text -> Some text
  | Refused { code; text; help } -> Some (Printf.sprintf "the node refused it: %s [%s]; see %s" text code help)
  | Closed -> Some "the session was closed: make another one"
  | Service { code; message; _ } -> Some (Printf.sprintf "%s [%s]" message code)
  | _ -> None

let () = Printexc.register_printer said
let fail_with code form = Printf.ksprintf (fun text -> raise (Service (Fault.make code text))) form
let unimplemented name = Service (Fault.make Fault.unimplemented (Printf.sprintf "%S is not implemented" name))
let log = ref prerr_endline
